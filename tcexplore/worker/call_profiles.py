"""Optional facts about warm calls, from profilers: parts of a compiled call, costs of breaks, eager lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tcexplore.capture import eager_places
from tcexplore.capture.dynamo import break_costs
from tcexplore.capture.dynamo.eager_ops import detach_profiler
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.call_parts import Task
from tcexplore.capture.inductor.cuda_graphs import WITHOUT_REPLAY
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CallProfiled, Job, Location, RunFact
from tcexplore.timing.profile_effect import compare_ratios, measure_ratios
from tcexplore.timing.workload import Pause, Workload
from tcexplore.worker import other_values
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.failure import OptionalStages
from tcexplore.worker.other_values import OtherValues
from tcexplore.worker.program import Program

PROFILER = "torch.profiler:profile"
REPLAYS = "library calls in CUDA graphs", WITHOUT_REPLAY
EFFECT = "effect of the profiles on the timing", "tcexplore.timing.profile_effect"

GPU_TIMING_S = 5.0
"""Seconds of timing on a GPU before a profile."""


@dataclass(frozen=True, slots=True)
class CallProfiles:
    """Profiles the calls of one run; each fact is a stage that may fail."""

    job: Job
    hooks: Hooks
    stages: OptionalStages
    frames: CompiledFrames
    recorder: EventRecorder
    user_files: UserFiles
    caller: Location | None = None
    """The user's line that makes the call in a script."""
    restore: Callable[[], object] | None = None
    """Sets the program's state back to that before its first call; None for a script: its calls have other values."""

    def emit_all(self, program: Program, workload: Workload) -> None:
        """Emit what profilers show of a call."""
        self.stages.run(RunFact.CALL_PROFILE, PROFILER, self._emit_call_profile, workload)
        program.restore()
        if not self.job.examine:
            return
        self._emit_costs(program)
        if self.recorder.timing is not None and self.recorder.contradicts(self.recorder.timing):
            # Other load may have slowed them down.
            self._emit_costs(program)
        self.stages.run(RunFact.LINE_TIMES, "tcexplore.timing.line_timer", self._emit_line_times, workload)
        program.restore()
        if self.restore is not None and self.recorder.guards_break_value and not self.recorder.limit_hit:
            values = OtherValues(program, self.hooks, self.user_files, self.restore)
            self.stages.run(other_values.FACT, other_values.SYMBOL, values.run, limit_s=2 * other_values.LIMIT_S)

    def _emit_costs(self, program: Program) -> None:
        self.stages.run(break_costs.FACT, PROFILER, self._emit_break_costs, program)
        program.restore()

    def _emit_break_costs(self, program: Program) -> None:
        if break_costs.any_graph_broke():
            measure = partial(break_costs.measure_break_costs, program.call_all, program.compiled, program.restore)
            self.hooks.emit(self.frames.measure_warm(measure))

    def _emit_call_profile(self, workload: Workload) -> None:
        from tcexplore.capture.inductor.call_profile import (
            graph_callers,
            measure_device_busy,
            place_eager_ops,
            profile_call,
            profile_without_replay,
        )

        timing, reset = self.recorder.timing, workload.reset or (lambda: None)
        call = workload.in_context(workload.compiled)
        callers = self.frames.measure_warm(partial(graph_callers, call, reset, self.recorder.wrappers))
        code = self.recorder.kernels, self.recorder.wrappers
        tasks: dict[str, Sequence[Sequence[Task]]] = {}
        if self.recorder.cuda_graphs:
            without = partial(profile_without_replay, call, reset, *code)
            self.stages.run(*REPLAYS, lambda: tasks.update(self.frames.measure_warm(without)))
        measure = partial(
            profile_call,
            call,
            reset,
            *code,
            timing.unit_us if timing is not None else None,
            tasks=tasks,
            on_device=workload.device.type != "cpu",
        )
        profile = replace(self.frames.measure_warm(measure), callers=callers)
        if eager_places.has_eager_ops(profile):
            place = partial(place_eager_ops, profile, call, reset, self.recorder.wrappers, self.user_files)
            placed: list[CallProfiled] = []
            self.stages.run(
                eager_places.FACT, eager_places.SYMBOL, lambda: placed.append(self.frames.measure_warm(place))
            )
            profile = placed[0] if placed else profile
        if profile.device_busy_us is not None:
            eager = partial(measure_device_busy, workload.in_context(workload.eager), reset)
            profile = replace(profile, eager_device_busy_us=self.frames.measure_warm(eager))
        self.hooks.emit(profile)

    def _emit_line_times(self, workload: Workload) -> None:
        from tcexplore.timing.line_timer import LineTimer

        timer = LineTimer(workload, self.user_files, self.recorder.timing, self.caller)
        self.hooks.emit(self.frames.measure_warm(timer.measure))


class EffectCheck:
    """Runs profiles between two measurements of the ratio of both sides, and tells whether they changed it."""

    def __init__(self, workload: Workload, hooks: Hooks, stages: OptionalStages) -> None:
        self._workload = workload
        self._hooks = hooks
        self._stages = stages
        self.changed = False
        """Whether the process differs since a profile, and cannot be timed any more."""

    def run(self, profile: Callable[[], None]) -> None:
        """Call `profile`; on a GPU, detach the profiler, and compare the ratio before and after that."""
        if str(self._workload.device.type) == "cpu":
            profile()
            return
        before = self._measure()
        profile()
        self._stages.run("detaching the profiler", "libcupti:cuptiFinalize", detach_profiler)
        after = self._measure()
        self.changed = True
        if before and after:
            effect = compare_ratios(before, after)
            self.changed = effect.changed
            self._hooks.emit(effect)

    def _measure(self) -> list[float]:
        ratios: list[float] = []
        self._stages.run(*EFFECT, lambda: ratios.extend(measure_ratios(self._workload)))
        return ratios


class ProfileStage:
    """Profiles the calls once, after the timing or between its pairs as soon as there is a verdict.

    A profile on a GPU may leave CUPTI attached, and every launch takes longer from then on. So a timing that goes on
    for as long as the app runs is mostly over by then, and it ends if the ratio of both sides then differs.
    """

    def __init__(self, profiles: CallProfiles, program: Program, workload: Workload) -> None:
        self._profiles = profiles
        self._program = program
        self._workload = workload
        self._effect = EffectCheck(workload, profiles.hooks, profiles.stages)
        self._began = time.monotonic()
        self._done = False

    def run(self) -> None:
        """Profile the calls unless it is done."""
        if not self._done:
            self._done = True
            if self._profiles.job.profile:
                self._effect.run(lambda: self._profiles.emit_all(self._program, self._workload))

    def may_time(self) -> bool:
        """Return whether the profiles, if any, left the process as it was."""
        return not self._effect.changed

    def between_pairs(self, pause: Pause) -> Pause:
        """Return a pause of the timing that profiles the calls in between."""

        def pause_or_profile(seconds: float) -> bool:
            worked = pause(seconds)
            if self._done or not self._is_due():
                return worked
            self.run()
            return True

        return pause_or_profile

    def _is_due(self) -> bool:
        timing = self._profiles.recorder.timing
        on_gpu = self._workload.device.type != "cpu"
        waited = not on_gpu or time.monotonic() - self._began > GPU_TIMING_S
        return waited and timing is not None and timing.verdict != "measuring"
