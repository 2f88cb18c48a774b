"""Optional facts about warm calls, from profilers: the parts of a compiled call, costs of breaks, eager lines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from tcexplore.capture.dynamo import break_costs
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job, RunFact
from tcexplore.timing.workload import Pause, Workload
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.optional_stages import OptionalStages
from tcexplore.worker.program import Program

PROFILER = "torch.profiler:profile"

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

    def emit_all(self, program: Program, workload: Workload) -> None:
        """Emit what profilers show of a call."""
        if not self.job.profile:
            return
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

    def _emit_costs(self, program: Program) -> None:
        self.stages.run(break_costs.FACT, PROFILER, self._emit_break_costs, program)
        program.restore()

    def _emit_break_costs(self, program: Program) -> None:
        if break_costs.any_graph_broke():
            measure = partial(break_costs.measure_break_costs, program.call_all, program.compiled, program.restore)
            self.hooks.emit(self.frames.measure_warm(measure))

    def _emit_call_profile(self, workload: Workload) -> None:
        from tcexplore.capture.inductor.call_profile import profile_call

        timing = self.recorder.timing
        measure = partial(
            profile_call,
            workload.in_context(workload.compiled),
            workload.reset or (lambda: None),
            self.recorder.kernels,
            self.recorder.wrappers,
            timing.unit_us if timing is not None else None,
            on_device=workload.device.type != "cpu",
        )
        self.hooks.emit(self.frames.measure_warm(measure))

    def _emit_line_times(self, workload: Workload) -> None:
        from tcexplore.timing.line_timer import LineTimer

        timer = LineTimer(workload, self.user_files, self.recorder.timing)
        self.hooks.emit(self.frames.measure_warm(timer.measure))


class ProfileStage:
    """Profiles the calls once, after the timing or between its pairs as soon as there is a verdict.

    A profile on a GPU leaves CUPTI attached, and every launch takes longer from then on. So a timing that goes on for
    as long as the app runs is mostly over by then.
    """

    def __init__(self, profiles: CallProfiles, program: Program, workload: Workload) -> None:
        self._profiles = profiles
        self._program = program
        self._workload = workload
        self._began = time.monotonic()
        self._done = False

    def run(self) -> None:
        """Profile the calls unless it is done."""
        if not self._done:
            self._done = True
            self._profiles.emit_all(self._program, self._workload)

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
