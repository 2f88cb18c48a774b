"""Optional facts about warm calls, from profilers: eager ops, costs of breaks, the parts and the lines of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tcexplore.capture.dynamo import break_costs
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, Job, RunFact, TimingEstimate
from tcexplore.timing.workload import Pause, Workload
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.optional_stages import OptionalStages
from tcexplore.worker.program import Program

PROFILER = "torch.profiler:profile"


@dataclass(frozen=True, slots=True)
class CallProfiles:
    """Profiles the calls of one run; each fact is a stage that may fail."""

    job: Job
    hooks: Hooks
    stages: OptionalStages
    frames: CompiledFrames
    recorder: EventRecorder
    user_files: UserFiles

    def emit_before_timing(self, program: Program, workload: Workload) -> None:
        """Emit what profilers show of a call."""
        self.stages.run("eager ops", PROFILER, self._emit_eager_ops, workload)
        program.restore()
        self.emit_call(program, workload)

    def emit_call(self, program: Program, workload: Workload) -> None:
        """Emit the parts of a compiled call: its breaks and kernels."""
        self.stages.run(break_costs.FACT, PROFILER, self._emit_break_costs, program)
        program.restore()
        self.stages.run(RunFact.CALL_PROFILE, PROFILER, self._emit_call_profile, workload)
        program.restore()

    def emit_line_times(self, program: Program, workload: Workload) -> None:
        """Emit the time of each line of the user's files."""
        if self.job.profile and self.job.examine:
            self.stages.run(RunFact.LINE_TIMES, "tcexplore.timing.line_timer", self._emit_line_times, workload)
            program.restore()

    def _emit_eager_ops(self, workload: Workload) -> None:
        from tcexplore.capture.dynamo.eager_ops import measure_eager_ops

        call, reset = _compiled_call(workload)
        self.recorder.emit(self.frames.measure_warm(lambda: measure_eager_ops(call, reset)))

    def _emit_break_costs(self, program: Program) -> None:
        if self.job.examine and break_costs.any_graph_broke():
            measure = partial(break_costs.measure_break_costs, program.call_all, program.compiled, program.restore)
            self.hooks.emit(self.frames.measure_warm(measure))

    def _emit_call_profile(self, workload: Workload) -> None:
        from tcexplore.capture.inductor.call_profile import profile_call

        if self.job.examine:
            call, reset = _compiled_call(workload)
            measure = partial(profile_call, call, reset, self.recorder.kernels, self.recorder.wrappers)
            for event in self.frames.measure_warm(lambda: list(measure())):
                self.hooks.emit(event)

    def _emit_line_times(self, workload: Workload) -> None:
        from tcexplore.timing.line_timer import LineTimer

        timer = LineTimer(workload, self.user_files, self.recorder.timing)
        self.hooks.emit(self.frames.measure_warm(partial(timer.measure, self.recorder.kernels, self.recorder.wrappers)))


class LineTimesStage:
    """Measures the lines once: when the timing rests for the first time, or after it."""

    def __init__(self, profiles: CallProfiles, program: Program, workload: Workload) -> None:
        self._profiles = profiles
        self._program = program
        self._workload = workload
        self._done = False

    def run(self) -> None:
        """Measure the lines unless it is done."""
        if not self._done:
            self._done = True
            self._profiles.emit_line_times(self._program, self._workload)

    def in_first_rest(self, pause: Pause) -> Pause:
        """Return a pause of the timing that measures the lines in its first rest."""

        def pause_or_measure(seconds: float) -> bool:
            worked = pause(seconds)
            if self._done or not seconds:
                return worked
            self.run()
            return True

        return pause_or_measure


class ProfileRetake:
    """Profiles the call once more, between two timed pairs, if profile or break costs disagree with the timing.

    The profile takes place before the timing: other processes may have slowed down either of them.
    """

    def __init__(self, recorder: EventRecorder, profile: Callable[[], None], pause: Pause) -> None:
        self._recorder = recorder
        self._profile = profile
        self._pause = pause
        self._due = False
        self._retaken = False

    def emit(self, event: Event) -> None:
        """Send an event of the timing, and compare an estimate with the profile."""
        self._recorder.emit(event)
        if isinstance(event, TimingEstimate) and event.verdict != "measuring" and not self._retaken:
            self._due = self._recorder.contradicts(event)

    def pause(self, seconds: float) -> bool:
        """Pause for `seconds`, and return whether other work was done, such as another profile."""
        worked = self._pause(seconds)
        if not self._due:
            return worked
        self._due, self._retaken = False, True
        self._profile()
        return True


def _compiled_call(workload: Workload) -> tuple[Callable[[], object], Callable[[], None]]:
    """Return a compiled unit of calls, and what restores the state of the program after it."""
    return workload.in_context(workload.compiled), workload.reset or (lambda: None)
