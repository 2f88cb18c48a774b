"""Comparison of results, memory and state dicts, eager and compiled, after the compile."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tcexplore.accuracy.observation import Subject, size_of
from tcexplore.accuracy.tensor_comparison import IDENTICAL
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.entry import Call
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.memory import (
    allocations_at_peak,
    cuda_graph_pools,
    memory_reading,
    peak_meter,
    saved_for_backward,
)
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Accuracy, Memory, RunFact, StateKeys
from tcexplore.events.result_events import STATE_KEYS_SHOWN
from tcexplore.quantities import size
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.failure import OptionalStages
from tcexplore.worker.program import Function, Program


class Examination:
    """Compares both sides of a program that is compiled between `__init__` and `note_compiled`."""

    def __init__(
        self,
        program: Program,
        hooks: Hooks,
        recorder: EventRecorder,
        stages: OptionalStages,
        frames: CompiledFrames,
        restore: Callable[[], tuple[str, ...]],
        explain_memory: UserFiles | None = None,
    ) -> None:
        """`restore` sets the program's state back, and returns the paths of what cannot be set back.

        With `explain_memory`, what is in use at the peak of memory is recorded, with the lines of these files.
        """
        self._program = program
        self._explain_memory = explain_memory
        self.restore = restore
        self._frames = frames
        self._hooks = hooks
        self._recorder = recorder
        self._stages = stages
        self._allocated = memory_reading(program.device)
        self._bytes_before = self._allocated.read()
        self._compile_bytes: int | None = None

    def note_compiled(self) -> None:
        """Measure the memory that the compile allocated. Must be called right after the compile."""
        after = self._allocated.read()
        self._compile_bytes = None if after is None or self._bytes_before is None else after - self._bytes_before

    def emit_accuracy(self) -> None:
        """Emit `Accuracy`; a failure costs that fact only."""
        self.restore()
        self._stages.run(RunFact.ACCURACY, "tcexplore.accuracy", lambda: self._hooks.emit(self._accuracy()))
        self.restore()

    def emit_memory(self) -> None:
        """Emit `Memory`; a failure costs that fact only."""
        self._stages.run(RunFact.MEMORY, "torch.profiler:profile", self._emit_memory)
        self.restore()
        if self._explain_memory is not None:
            explain = partial(self._explain_peaks, self._explain_memory)
            self._stages.run("what is in use at the peak", "torch.profiler:profile", explain)
            self.restore()

    def _accuracy(self) -> Accuracy:
        from tcexplore.accuracy.accuracy_check import check_accuracy

        try:
            accuracy = check_accuracy(self._subject())
            if accuracy.verdict != IDENTICAL and (changed := self.restore()):
                reason = f"each call starts from another state, which cannot be set back: {', '.join(changed)}"
                return replace(accuracy, verdict="not judged", reason=reason)
            return accuracy
        except Exception as error:  # noqa: BLE001  the calls run user code; a failure costs the comparison only
            reason = str(error).partition("\n")[0]
            return Accuracy(verdict="not judged", reason=f"{type(error).__name__}: {reason}")

    def _subject(self) -> Subject:
        subject = replace(self._program.subject(), restore=self.restore)
        compile_again = subject.unrandomized
        if compile_again is None:
            return subject

        def without_events(warm_up: Callable[[Function], None]) -> Function:
            with self._hooks.silenced():
                return compile_again(warm_up)

        return replace(subject, unrandomized=without_events)

    def _emit_memory(self) -> None:
        program = self._program
        allocator = peak_meter(program.device)
        sides = (program.eager, program.compiled)
        peaks = [self._frames.measure_warm(partial(allocator.peak, partial(self._call_all, side))) for side in sides]
        peaks[1] += self._cuda_graph_peak()
        weights = program.weights()
        saved, notes = None, self._notes()
        try:
            saved = self._saved_bytes(weights) if program.train else None
        except RuntimeError as error:  # torch.func has no hooks for what is saved
            notes = (*notes, f"What eager saves for the backward is not known: {str(error).partition('. ')[0]}")
        self._hooks.emit(
            Memory(
                device=program.device.type,
                method=allocator.method,
                weights=size_of(weights),
                inputs=size_of(program.tensors()),
                eager_peak=peaks[0],
                compiled_peak=peaks[1],
                compiling_adds=self._compile_bytes,
                compiling_method=self._allocated.method,
                saved_for_backward=saved,
                notes=notes,
            )
        )

    def _explain_peaks(self, user_files: UserFiles) -> None:
        """Emit what is in use at the peaks of a compiled and of an eager call."""
        from tcexplore.worker.eager_memory import eager_peak

        program, frames = self._program, self._frames
        compiled = partial(allocations_at_peak, program.device, partial(self._call_all, program.compiled))
        self._hooks.emit(frames.measure_warm(compiled))
        self.restore()

        def call_eager(call: Call) -> object:
            return program.call(program.eager, call)

        with self._hooks.paused():
            calls = [partial(self._restored, partial(call_eager, call)) for call in program.entry.calls]
            peak = frames.measure_warm(partial(eager_peak, calls, user_files))
        if peak is not None:
            self._hooks.emit(peak)

    def _restored(self, call: Callable[[], object]) -> object:
        """Make a call from the state that each call begins with."""
        self._program.restore()
        return call()

    def _cuda_graph_peak(self) -> int:
        """Return the largest peak of a CUDA graph, whose memory is allocated when it is recorded, not during a call."""
        return max((recorded.peak_bytes or 0 for recorded in self._recorder.cuda_graphs), default=0)

    def _notes(self) -> tuple[str, ...]:
        pools = cuda_graph_pools(self._program.device)
        if not pools:
            return ()
        peak = size(self._cuda_graph_peak())
        return (
            f"CUDA graphs hold {size(pools)} in private pools, which calls reuse; "
            f"{peak} of it was in use during recording and counts as compiled",
        )

    def _call_all(self, side: Function) -> None:
        """Make every call, and release its outputs before the next one."""
        for call in self._program.entry.calls:
            self._program.call(side, call)
            self._program.restore()

    def _saved_bytes(self, weights: list[torch.Tensor]) -> int:
        """Return the largest number of bytes that a call saves for its backward pass."""
        program = self._program
        known = [*weights, *program.tensors()]
        return max(
            saved_for_backward(lambda call=call: program.forward(program.eager, call), known)  # type: ignore[misc]
            for call in program.entry.calls
        )


def state_keys(module: torch.nn.Module, compiled: Callable[..., Any]) -> StateKeys | None:
    """Compare the keys of a module and of its compiled form; None if the latter is no module or has no state.

    The module is not modified: a shallow copy that shares its parameters is compiled in place and never called.
    """
    if not isinstance(compiled, torch.nn.Module):
        return None
    module_keys, compiled_keys = list(module.state_dict()), list(compiled.state_dict())
    if not module_keys:
        return None
    shallow_copy = copy.copy(module)
    shallow_copy.compile()
    in_place = list(shallow_copy.state_dict())
    return StateKeys(
        count=len(module_keys), module=tuple(module_keys[:STATE_KEYS_SHOWN]),
        compiled=tuple(compiled_keys[:STATE_KEYS_SHOWN]),
        in_place=tuple(in_place[:STATE_KEYS_SHOWN]), prefix=_prefix(module_keys, compiled_keys),
    )  # fmt: skip


def _prefix(module_keys: list[str], compiled_keys: list[str]) -> str | None:
    """Return the prefix that turns every key of the module into the compiled one's; None if there is no such prefix."""
    if len(module_keys) != len(compiled_keys):
        return None
    pairs = list(zip(module_keys, compiled_keys, strict=True))
    prefixes = {compiled.removesuffix(key) for key, compiled in pairs if compiled.endswith(key)}
    return prefixes.pop() if len(prefixes) == 1 and all(compiled.endswith(key) for key, compiled in pairs) else None
