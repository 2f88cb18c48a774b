"""Captured calls of a script, made again after its end: results, memory, time, account and lines of a call."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar, get_args

from tcexplore.accuracy.accuracy_check import MEMORY_DIVISOR, free_memory
from tcexplore.accuracy.observation import size_of
from tcexplore.capture.captured_calls import CallCapture, CapturedCall, NotCapturedError
from tcexplore.capture.compiled_regions import CAPTURED_FACT as FACT
from tcexplore.capture.compiled_regions import CAPTURED_SYMBOL as SYMBOL
from tcexplore.capture.compiled_regions import Regions
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.entry import Entry
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.step_signals import is_one_of_several_ranks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    Accuracy,
    BreakCosts,
    CallExamined,
    CallProfiled,
    Config,
    EagerLinesTimed,
    Event,
    FactMissing,
    Job,
    Memory,
    PaddedCall,
    Phase,
    RecompileFixTried,
    RunFact,
    SizesTried,
    StageStarted,
    TimingEstimate,
    TimingSkipped,
    VaryingSize,
)
from tcexplore.events.captured_events import Padding
from tcexplore.events.config import with_file_arguments
from tcexplore.timing.workload import Workload
from tcexplore.worker import process_setup, recompile_trials
from tcexplore.worker.call_profiles import CallProfiles
from tcexplore.worker.event_recorder import EventRecorder, with_kernels
from tcexplore.worker.examination import Examination
from tcexplore.worker.failure import OptionalStages
from tcexplore.worker.program import LARGEST_COPIED, Program, ProgramState
from tcexplore.worker.recompile_trials import RecompileTrials
from tcexplore.worker.region_shapes import time_padded, varying_sizes

Kind = TypeVar("Kind", bound=Event)

COPIED_BYTES = 4
"""Bytes of the state that a step changes, over those of its weights: also gradients and two moments."""

PADDINGS: tuple[Padding, ...] = get_args(Padding)


BUDGET_S = 40.0
"""No further call is timed after this many seconds; the first one is in any case."""

STUDY_BUDGET_S = 8.0
"""The same for a run of a study."""

TIMED_S = 1.5
"""Seconds of timing of a captured call."""

DISTRIBUTED = "the script is one rank of a distributed job: a call may wait for the others"

RECOMPILED = "it compiled again when it was repeated: the state that its guards check is gone"


class CapturedStage:
    """Examines the captured calls of a script, those of the region that takes the most time first."""

    def __init__(
        self,
        job: Job,
        hooks: Hooks,
        recorder: EventRecorder,
        stages: OptionalStages,
        frames: CompiledFrames,
        user_files: UserFiles,
        loaded: Collection[str],
        *,
        pause: Callable[[], object],
        enter: Callable[[Phase], None],
    ) -> None:
        """`pause` handles commands, and waits while timing is paused; `loaded` are modules imported before the file."""
        self._job = job
        self._hooks = hooks
        self._emit = hooks.emit
        self._recorder = recorder
        self._stages = stages
        self._frames = frames
        self._user_files = user_files
        self._loaded = loaded
        self._pause = pause
        self._enter = enter
        self._varying: dict[int, tuple[VaryingSize, ...]] = {}
        self._results: dict[int, CallExamined] = {}
        """By the id of the captured call."""

    def run(self, captures: CallCapture, regions: Regions) -> None:
        """Examine the calls, and release what is kept of them."""
        for name, reason in captures.reasons.items():
            self._hooks.report_missing(FACT, SYMBOL, f"{name}: {reason}")
        if is_one_of_several_ranks():
            self._hooks.report_missing(FACT, SYMBOL, DISTRIBUTED)
            captures.clear()
            return
        calls = _in_order(captures, regions)
        self._varying = {region: varying_sizes(counts.values()) for region, counts in captures.counts.items()}
        by_region = {region: list(kept.values()) for region, kept in captures.calls.items()}
        captures.clear()
        for captured in calls:
            self._pause()
            self._stages.run(FACT, SYMBOL, self._compare, captured, regions)
        if self._job.time_for != 0:
            self._measure_all(calls, regions)
        calls.clear()
        self._results.clear()
        if self._job.try_recompile_fixes:
            for region in [region for region in by_region if self._varying.get(region)]:
                self._pause()
                limit = 2 * recompile_trials.BUDGET_S
                self._stages.run(
                    recompile_trials.FACT, recompile_trials.SYMBOL, self._try_changes, region, by_region[region],
                    limit_s=limit,
                )  # fmt: skip
        by_region.clear()
        gc.collect()

    def _measure_all(self, calls: Sequence[CapturedCall], regions: Regions) -> None:
        """Time and profile the calls, the first one in any case, the others within the budget."""
        budget = BUDGET_S if self._job.profile else STUDY_BUDGET_S
        ends = time.monotonic() + budget
        for captured in calls:
            result = self._results.get(id(captured))
            if result is None:
                continue
            if captured is not calls[0] and time.monotonic() > ends:
                reason = f"{RunFact.TIMING}: the other captured calls took {budget:.0f} s"
                self._emit(replace(result, missing=(*result.missing, reason)))
                continue
            self._pause()
            self._stages.run(FACT, SYMBOL, self._measure, captured, result, regions)

    def _compare(self, captured: CapturedCall, regions: Regions) -> None:
        """Compare results and memory of both sides."""
        self._enter("accuracy")
        result = CallExamined(
            region=captured.region, call=captured.number, inputs=captured.inputs, calls=captured.count.calls,
            compiles=captured.count.compiles, backward=bool(captured.gradients), held=captured.copied_bytes,
        )  # fmt: skip
        try:
            entry = captured.entry()
        except NotCapturedError as error:
            self._emit(replace(result, missing=(f"{error}",)))
            return
        events: list[Event] = []
        with self._collecting(events):
            program, restore = self._program(entry, captured, regions)
            before = self._frames.count
            program.call_all(program.compiled)
            if restore() and _can_copy(program):  # as a step with its optimizer, it changes more than small tensors
                program, restore = self._program(entry, captured, regions, largest_copied=sys.maxsize)
            notes = entry.notes if self._frames.count == before else (*entry.notes, RECOMPILED)
            examination = Examination(program, self._hooks, self._recorder, self._stages, self._frames, restore)
            examination.emit_accuracy()
            examination.emit_memory()
        result = self._results[id(captured)] = _with_results(replace(result, notes=notes), events)
        self._emit(result)

    def _measure(self, captured: CapturedCall, result: CallExamined, regions: Regions) -> None:
        """Time both sides, and profile them."""
        self._enter("timing")
        events: list[Event] = []
        padded: tuple[PaddedCall, ...] = ()
        with self._collecting(events):
            program, restore = self._program(captured.entry(), captured, regions)
            self._time(program, captured.region, regions)
            restore()
            if varying := self._varying.get(captured.region):
                padded = self._pad(program, varying)
        self._emit(_with_results(replace(result, padded=padded), events))

    def _program(
        self, entry: Entry, captured: CapturedCall, regions: Regions, *, largest_copied: int = LARGEST_COPIED
    ) -> tuple[Program, Callable[[], tuple[str, ...]]]:
        """Return the program of a captured call, and a function that sets its state back."""
        config, eagerly = self._config(captured, regions), partial(self._eagerly, regions)
        program = Program(entry, config, sys.modules["__main__"], self._hooks.paused, eagerly)
        return program, self._restorer(program, largest_copied)

    def _restorer(self, program: Program, largest_copied: int = LARGEST_COPIED) -> Callable[[], tuple[str, ...]]:
        """Return a function that sets a program's state back to what it is now."""
        module = sys.modules["__main__"]
        return ProgramState(program, module, self._user_files, self._loaded, largest_copied=largest_copied).restore

    def _pad(self, program: Program, varying: tuple[VaryingSize, ...]) -> tuple[PaddedCall, ...]:
        """Time the call padded, in the code that the script compiled."""
        padded: list[PaddedCall | None] = []

        def make(entry: Entry) -> Callable[[], object]:
            own = Program(entry, program.config, sys.modules["__main__"])

            def call() -> None:
                own.call_all(own.compiled)
                own.restore()

            return call

        for padding in PADDINGS:
            self._stages.run(
                "padded calls", "torch.nn.functional:pad",
                lambda padding=padding: padded.append(time_padded(program.entry, varying, padding, make)),
            )  # fmt: skip
        return tuple(filter(None, padded))

    def _try_changes(self, region: int, calls: Sequence[CapturedCall]) -> None:
        """Repeat the calls of a region with changes that might avoid recompiles.

        Only those in the most frequent modes of torch, such as with gradients: an entry has one context.
        """
        modes = max((call.modes for call in calls), key=lambda modes: sum(call.modes == modes for call in calls))
        entries = []
        for captured in sorted((call for call in calls if call.modes == modes), key=lambda call: call.number):
            with suppress(NotCapturedError):
                entries.append(captured.entry())
        if len(entries) < 2:
            return
        entry = replace(entries[0], calls=tuple(call for each in entries for call in each.calls))
        events: list[Event] = []
        with self._collecting(events):
            module = sys.modules["__main__"]
            program = Program(entry, self._job.config, module, self._hooks.paused)
            restore = self._restorer(program)
            RecompileTrials(program, self._job.config, module, self._hooks, self._user_files, restore).run()
        for event in events:
            if isinstance(event, RecompileFixTried):
                self._emit(
                    SizesTried(
                        region=region, calls=len(entries), changes=event.changes, graphs_before=event.graphs_before,
                        graphs_after=event.graphs_after, problem=event.problem,
                    )
                )  # fmt: skip
            elif isinstance(event, FactMissing):
                self._emit(event)

    def _time(self, program: Program, region: int, regions: Regions) -> None:
        """Time both sides in turns, then profile them."""
        from tcexplore.timing.timing_run import measure_timing

        workload = program.workload(mutates=True)
        if regions.nest:
            workload = replace(workload, eager=_with_originals(workload, regions))

        def pause(_seconds: float) -> bool:
            self._pause()
            return False

        seconds = min(TIMED_S, self._job.time_for or TIMED_S)
        measure = partial(
            measure_timing, workload, self._note_timing, seconds, pause, front_end=process_setup.front_end
        )
        self._stages.run(RunFact.TIMING, "tcexplore.timing", measure)
        if self._job.profile:
            profiles = CallProfiles(
                self._job, self._hooks, self._stages, self._frames, self._recorder, self._user_files,
                regions.callers[region],
            )  # fmt: skip
            profiles.emit_all(program, workload)

    def _note_timing(self, event: Event) -> None:
        """Note the estimate, which the profiles are compared with."""
        if isinstance(event, TimingEstimate):
            self._recorder.timing = event
        self._hooks.emit(event)

    def _config(self, captured: CapturedCall, regions: Regions) -> Config:
        """Return the configuration with the backend that the script chose for a region."""
        given = next((region.arguments for region in regions.all if region.region == captured.region), ())
        backend = with_file_arguments(self._job.config, given).backend
        return replace(self._job.config, backend=backend, mode="default", regions="whole")

    @contextmanager
    def _eagerly(self, regions: Regions) -> Iterator[None]:
        """Make calls of anything but the compiled program: no region is compiled, nothing is observed."""
        with self._hooks.paused(), regions.calling_originals():
            yield

    @contextmanager
    def _collecting(self, events: list[Event]) -> Iterator[None]:
        """Collect events instead of emitting them, apart from those for the supervisor."""
        emit, timing = self._hooks.emit, self._recorder.timing

        def collect(event: Event) -> None:
            if isinstance(event, StageStarted):
                emit(event)
            else:
                events.append(event)

        self._hooks.emit, self._recorder.timing = collect, None
        try:
            yield
        finally:
            self._hooks.emit, self._recorder.timing = emit, timing


WITH_BACKWARD = 3
"""Estimate of a call with its backward, which usually takes twice as long as the call, and is not counted in it."""


def _in_order(captures: CallCapture, regions: Regions) -> list[CapturedCall]:
    """Return the calls, the most frequent of each region first, the region that takes the most time first.

    A layer that runs the code of another one comes later: all that is known of the code belongs to that one.
    """
    seconds, compiled = regions.seconds, regions.compiled

    def rank(region: int) -> tuple[bool, float, float]:
        has_backward = any(captured.gradients for captured in captures.calls[region].values())
        warm, total = seconds.get(region, (0.0, 0.0))
        return region in compiled, warm * (WITH_BACKWARD if has_backward else 1), total

    by_region = sorted(captures.calls, key=rank, reverse=True)
    queues = [sorted(captures.calls[region].values(), key=lambda call: -call.count.calls) for region in by_region]
    longest = max(map(len, queues), default=0)
    return [queue[index] for index in range(longest) for queue in queues if index < len(queue)]


def _with_originals(workload: Workload, regions: Regions) -> Callable[[], None]:
    """Return the eager side of a workload, with regions that it calls run eagerly, too."""

    def run() -> None:
        with regions.calling_originals():
            workload.eager()

    return run


def _with_results(examination: CallExamined, events: list[Event]) -> CallExamined:
    """Add the newest event of each kind."""
    missing = [
        f"{event.fact}: {event.reason}" if isinstance(event, FactMissing) else f"{RunFact.TIMING}: {event.reason}"
        for event in events
        if isinstance(event, FactMissing | TimingSkipped)
    ]
    timing, profile = _newest(events, TimingEstimate), _newest(events, CallProfiled)
    return replace(
        examination,
        timing=with_kernels(timing, profile) if timing is not None else examination.timing,
        accuracy=_newest(events, Accuracy) or examination.accuracy,
        memory=_newest(events, Memory) or examination.memory,
        profile=profile or examination.profile,
        eager_lines=_newest(events, EagerLinesTimed) or examination.eager_lines,
        break_costs=_newest(events, BreakCosts) or examination.break_costs,
        missing=tuple(dict.fromkeys([*examination.missing, *missing])),
    )


def _newest(events: list[Event], kind: type[Kind]) -> Kind | None:
    return next((event for event in reversed(events) if isinstance(event, kind)), None)


def _can_copy(program: Program) -> bool:
    """Return whether all that a call may change fits in memory once more."""
    free = free_memory(program.device)
    return free is None or COPIED_BYTES * size_of(program.weights()) <= free // MEMORY_DIVISOR
