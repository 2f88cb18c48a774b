"""The calls of a run: eager ones first, then compiled ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tcexplore.capture.compile_phases import ActivityTimer
from tcexplore.capture.dynamo.frame_entries import CompiledFrames, forget_frames, frames_begun
from tcexplore.capture.hooks import Hooks
from tcexplore.events import CallMade, Event, GradMode, GradReason, Job, Variant
from tcexplore.worker.failure import needs_gradients
from tcexplore.worker.optional_stages import OptionalStages
from tcexplore.worker.program import Program


class ProgramCalls:
    """Makes the calls of a program, and emits their durations and compiles."""

    def __init__(self, job: Job, hooks: Hooks, stages: OptionalStages, activity_timer: ActivityTimer) -> None:
        self._job = job
        self._hooks = hooks
        self._stages = stages
        self._activity_timer = activity_timer
        self.eager_done = False
        """Whether the calls ran without the compiler."""
        self.eager_works = False
        """Whether they also ran after a compiled call failed."""
        self.eager_compiles = False
        """Whether torch compiled parts of an eager call, such as `torch.cond`."""

    def make_eager(
        self, program: Program, frames: CompiledFrames, answer_as_target: Callable[[Exception], bool]
    ) -> bool:
        """Make the eager calls, with gradients if they fail without; return whether one changed its inputs.

        `answer_as_target` lets a program that requires a GPU see the target's, and returns whether to call it again.
        """
        config, needed, fresh = self._job.config, False, frames_begun() == 0
        try:
            mutates = self._make(program, frames, "eager")
        except Exception as error:
            needed = not program.grad and config.grad is None and needs_gradients(error)
            if not needed and not answer_as_target(error):
                raise
            program.restore()
            program.grad = program.grad or needed
            mutates = self._make(program, frames, "eager")
        if fresh and frames_begun():
            # The user's program starts from frame 0.
            self.eager_compiles = True
            forget_frames()
        chosen: GradReason = "inference" if config.grad is None else "requested"
        reason: GradReason = "training" if program.train else "needed" if needed else chosen
        self._hooks.emit(GradMode(enabled=program.grad, reason=reason, matters=program.requires_grad))
        self.eager_done = True
        return mutates

    def check_custom_ops(self, program: Program) -> None:
        """Make the eager calls again, and check the custom ops that they use."""
        from tcexplore.accuracy.custom_op_checks import check_custom_ops

        opcheck = self._job.config.opcheck
        with self._hooks.paused():
            for checked in check_custom_ops(partial(program.call_all, program.eager), opcheck=opcheck):
                self._hooks.emit(checked)

    def make_compiled(self, program: Program, frames: CompiledFrames) -> None:
        """Make the compiled calls, once for each pass of the job."""
        try:
            for _ in range(self._job.passes):
                self._make(program, frames, "compiled")
        except Exception:
            program.restore()
            with contextlib.suppress(Exception):
                program.call_all(program.eager)
                self.eager_works = True
            raise

    def _make(self, program: Program, frames: CompiledFrames, variant: Variant) -> bool:
        """Make every call once, in order; return whether one changed its inputs."""
        mutates = False
        made: list[Event] = []
        function: Callable[..., Any] = program.eager if variant == "eager" else program.compiled
        emit = self._hooks.emit if variant == "compiled" else made.append
        for index, call in enumerate(program.entry.calls):
            compiles, known = frames.count, len(frames.graphs)
            self._activity_timer.begin_call()
            start = time.perf_counter()
            program.call(function, call)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            self._stages.eager_seconds += seconds if variant == "eager" else 0.0
            compiles, graphs = frames.count - compiles, tuple(frames.graphs[known:])
            event = CallMade(index=index, variant=variant, seconds=seconds, compiles=compiles, graphs=graphs)
            if compiles:
                event = replace(event, **self._activity_timer.call_seconds())  # type: ignore[arg-type]
            emit(event)
            mutates = mutates or bool(program.mutated())
            program.restore()
        for call_made in made:
            self._hooks.emit(call_made)
        return mutates
