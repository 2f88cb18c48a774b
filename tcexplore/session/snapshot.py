"""Everything known about one run so far: an immutable record that grows with each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from tcexplore import events as ev
from tcexplore.events.config import with_file_arguments
from tcexplore.quantities import duration
from tcexplore.session.call_account import CallAccount, call_account
from tcexplore.session.code import Code, add_all, code_in_view, event_fields, target_of
from tcexplore.targets.target_names import NATIVE

RunStatus = Literal["running", "ok", "failed", "superseded"]
"""`superseded`: the next run ended it before it was complete."""

AFTER_COMPILE = ("eager", "accuracy", "assembling", "timing", "switching", "comparing", "answering")
"""Phases after the last compile."""

OUTPUT_LIMIT = 2_000_000
"""Characters of output kept per run; the oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class EarlierTrial:
    """A next step that was tried in an earlier run."""

    run: int
    tried: ev.StepTried
    file_changed: bool = True
    """The model file has changed since that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One run. Tuples hold events in the order of their arrival.

    A field of type `tuple[X, ...]` collects the events of type X, a field of type `X | None` keeps the last one.
    """

    run: int
    file: str
    source: str
    """The file's text at the save that started this run."""
    config: ev.Config
    trace: str = ""
    """The trace that the run was read from; empty for a live run."""
    began: float = 0.0
    """Time of the save, in seconds since the epoch; 0 if unknown."""
    past: str = ""
    """When an earlier start of the app made the run, such as `Sat 17:32`; empty for a run of this start."""
    status: RunStatus = "running"
    phase: ev.Phase | Literal[""] = ""
    phase_graph: str | None = None
    phase_at: float = 0.0
    """Start of the phase, in seconds since the job arrived."""
    phase_seconds: tuple[tuple[ev.Phase, float], ...] = ()
    """Seconds spent in each phase before the current one, in the order of their first begins."""
    entry: ev.EntryFound | None = None
    grad_mode: ev.GradMode | None = None
    graphs: tuple[ev.GraphCaptured, ...] = ()
    breaks: tuple[ev.GraphBreak, ...] = ()
    pieces: tuple[ev.PieceCompiled, ...] = ()
    merged_collectives: tuple[ev.CollectivesMerged, ...] = ()
    op_estimates: tuple[ev.OpEstimates, ...] = ()
    splits: tuple[ev.GraphSplit, ...] = ()
    skipped_frames: tuple[ev.FrameSkipped, ...] = ()
    restarts: tuple[ev.CompileRestarted, ...] = ()
    """Attempts to trace that torch gave up."""
    rewritten: tuple[ev.FunctionRewritten, ...] = ()
    """Functions with a graph break, and their resume functions."""
    guards: tuple[ev.GuardsInstalled, ...] = ()
    recompiles: tuple[ev.Recompiled, ...] = ()
    frames: tuple[ev.FrameEntered, ...] = ()
    symbols: tuple[ev.GraphSymbols, ...] = ()
    extra_compiles: ev.ExtraCompiles | None = None
    recompile_answers: tuple[ev.RecompileAnswer, ...] = ()
    recompile_asked: tuple[int, tuple[str, ...]] | None = None
    """Number and inputs of the user's newest query, as long as it is not answered."""
    recompile_fixes_tried: tuple[ev.RecompileFixTried, ...] = ()
    other_values: ev.OtherValuesTried | None = None
    target: str = NATIVE
    """Target in view: `native` or a name of the device table."""
    codes: tuple[Code, ...] = ()
    """Generated code, one entry per target with any."""
    device_queries: tuple[ev.DeviceQueried, ...] = ()
    op_checks: tuple[ev.CustomOpChecked, ...] = ()
    cache_lookups: tuple[ev.CacheLookup, ...] = ()
    cache_keys: tuple[ev.CacheKey, ...] = ()
    compiler_state: ev.CompilerState | None = None
    cache_misses: tuple[ev.CacheMissed, ...] = ()
    """Compared with another run; else they are computed from the keys."""
    phase_times: tuple[ev.PhaseTimed, ...] = ()
    calls: tuple[ev.CallMade, ...] = ()
    pairs: tuple[ev.PairsMeasured, ...] = ()
    timing: ev.TimingEstimate | None = None
    timing_skipped: str = ""
    steps: ev.StepsTimed | None = None
    """The steps of a script."""
    captured_calls: tuple[ev.CallExamined, ...] = ()
    """Captured calls of a script, that of the region with the most time first: `memory`, `call_account`, `eager_lines`
    and `break_costs` are of the first one, `accuracy` is the worst."""
    sizes_seen: tuple[ev.SizesSeen, ...] = ()
    """Of a script, at most one event of each region."""
    sizes_tried: tuple[ev.SizesTried, ...] = ()
    accuracy: ev.Accuracy | None = None
    memory: ev.Memory | None = None
    eager_peak: ev.EagerPeak | None = None
    peak_allocations: ev.PeakAllocations | None = None
    kernels_judged: tuple[ev.KernelJudged, ...] = ()
    first_ops: tuple[ev.FirstOp, ...] = ()
    """At most one of each kind; of a value that is not finite, at most one of each side."""
    result_errors: tuple[ev.ResultError, ...] = ()
    kernel_errors: tuple[ev.KernelErrorGrowth, ...] = ()
    module_errors: tuple[ev.ModuleErrorGrowth, ...] = ()
    switches_tried: tuple[ev.SwitchTried, ...] = ()
    step_parameters: tuple[ev.StepParameters, ...] = ()
    numerics: ev.NumericsJudged | None = None
    kernel_reproducer: ev.KernelReproducer | None = None
    call_profile: ev.CallProfiled | None = None
    call_account: CallAccount | None = None
    """Parts of the compiled call of `call_timing`, from `call_profile`."""
    profile: ev.ProfileRead | None = None
    """The profile that the call is of, if the run was read from one."""
    profiled_ranks: ev.RanksProfiled | None = None
    step_timelines: tuple[ev.StepTimeline, ...] = ()
    """Steps of a profile, the median one first; of a script a warm one that is not timed."""
    eager_lines: ev.EagerLinesTimed | None = None
    """Of a script those of its eager steps, until the first captured call is measured."""
    step_lines: ev.EagerLinesTimed | None = None
    """The lines of an eager step of a script."""
    break_costs: ev.BreakCosts | None = None
    first_break_costs: ev.BreakCosts | None = None
    """The first costs of this run: they decide the order of the breaks, which later ones do not change."""
    fixes: tuple[ev.BreakFix, ...] = ()
    """What is known of the fixes of breaks, at most one of each break."""
    cold_compile: ev.ColdCompile | None = None
    """Of the cold compile study; None before that."""
    guard_filters: tuple[ev.GuardFilterTried, ...] = ()
    """At most one event of each filter."""
    steps_tried: tuple[ev.StepTried, ...] = ()
    """At most one event of each next step."""
    tried_before: tuple[EarlierTrial, ...] = ()
    """Trials of steps in earlier runs of the file: the newest of each step."""
    change_progress: ev.ChangeCompared | None = None
    change_check: ev.ChangeChecked | None = None
    change_timing: ev.ChangeTimed | None = None
    memory_rates: ev.MemoryRates | None = None
    padding_check: ev.PaddingChecked | None = None
    device: ev.DeviceFacts | None = None
    profile_effect: ev.ProfileEffect | None = None
    autotuned: tuple[ev.Autotuned, ...] = ()
    cuda_graphs: tuple[ev.CudaGraphRecorded, ...] = ()
    cuda_graphs_skipped: tuple[ev.CudaGraphSkipped, ...] = ()
    kernel_compiles: tuple[ev.KernelCompiled, ...] = ()
    compile_workers: tuple[ev.CompileWorkerReport, ...] = ()
    """The newest report on each job."""
    graph_scripts: tuple[ev.GraphScript, ...] = ()
    kernel_scripts: tuple[ev.KernelScript, ...] = ()
    output: tuple[ev.Output, ...] = ()
    output_dropped: int = 0
    """Characters of output that were dropped."""
    modules: tuple[str, ...] = ()
    imported_ahead: ev.ImportedAhead | None = None
    compiler_loaded: ev.CompilerLoaded | None = None
    sources: tuple[ev.SourceRead, ...] = ()
    regions: tuple[ev.RegionCreated, ...] = ()
    region_graphs: tuple[ev.RegionGraph, ...] = ()
    region_modules: tuple[ev.RegionModule, ...] = ()
    backward_captures: tuple[ev.BackwardCaptured, ...] = ()
    region_compiles: tuple[ev.RegionCompiled, ...] = ()
    region_calls: tuple[ev.RegionCalls, ...] = ()
    """The newest event of each region, in the order of the regions' first calls."""
    repeated_blocks: ev.RepeatedBlocks | None = None
    """None if the model repeats none."""
    script_end: ev.ScriptEnded | None = None
    rank_comparison: ev.RanksCompared | None = None
    """All ranks of the job that this run belongs to."""
    trace_records: tuple[ev.TraceRecords, ...] = ()
    state_keys: ev.StateKeys | None = None
    artifacts_saved: ev.ArtifactsSaved | None = None
    artifacts_loaded: ev.ArtifactsLoaded | None = None
    failure: ev.Failed | None = None
    expected_calls: int | None = None
    """Number of calls to compute the net gain for."""
    missing_facts: tuple[ev.FactMissing, ...] = ()

    @property
    def first_op(self) -> ev.FirstOp | None:
        """The first op that is wrong, or else that differs from eager."""
        return next((first for first in self.first_ops if first.kind != "not finite"), None)

    @property
    def label(self) -> str:
        """The name of the run on the screen."""
        return self.trace or (f"run of {self.past}" if self.past else f"run {self.run}")

    @property
    def for_target(self) -> str:
        """Text such as ` for h100`, to follow what is generated for the target in view; empty for this machine."""
        return f" for {self.target}" if self.target != NATIVE else ""

    @property
    def is_script(self) -> bool:
        """Whether the run is of a script that calls torch.compile itself."""
        return self.entry is not None and self.entry.kind == "script"

    @property
    def configs(self) -> tuple[ev.Config, ...]:
        """The configurations of torch.compile, each once; none of a trace, which does not have them.

        Those of the file's own calls come from their arguments: in a script, of the regions that compiled something.
        """
        if self.trace:
            return ()
        if not self.is_script:
            given = self.entry.arguments if self.entry is not None else ()
            return (with_file_arguments(self.config, given) if given else self.config,)
        compiled = {known.region for known in self.region_graphs}
        regions = [region for region in self.regions if region.region in compiled] or self.regions
        distinct = dict.fromkeys(region.arguments for region in regions)
        return tuple(dict.fromkeys(with_file_arguments(self.config, arguments) for arguments in distinct))

    @property
    def compiled(self) -> bool:
        """Whether anything was compiled."""
        return bool(self.graphs) or (self.profile is not None and bool(self.code.kernels))

    @property
    def profile_alone(self) -> bool:
        """Whether the run was read from a profile without a trace, which has no graphs, breaks and guards."""
        return self.profile is not None and not self.graphs

    @property
    def complete(self) -> bool:
        """Whether the compile is over without a failure, so that only timing continues."""
        return self.status == "ok" or (self.status == "running" and self.phase in AFTER_COMPILE)

    @property
    def call_timing(self) -> ev.TimingEstimate | None:
        """The timing of a call: in a script of the first captured one, since `timing` is of its steps."""
        return self.captured_calls[0].timing if self.captured_calls else self.timing

    @property
    def saved_for_backward(self) -> int | None:
        """Bytes that the compiled forward saves; None if unknown, and for a script with several graphs."""
        code = self.code_for(NATIVE)
        return None if self.is_script and len(code.partitions) > 1 else code.saved_for_backward

    def fix_of(self, graph_break: ev.GraphBreak) -> ev.BreakFix | None:
        """Return what is known of the fix of a break."""
        key = (graph_break.location, graph_break.kind)
        return next((fix for fix in self.fixes if (fix.location, fix.kind) == key), None)

    @property
    def timing_goes_on(self) -> bool:
        """Whether its calls are timed, now or later: that waits for a study and for the verification of a fix."""
        return self.status == "running" and self.phase != "answering" and not self.timing_skipped

    @property
    def fix_under_way(self) -> ev.BreakFix | None:
        """The fix that is being verified."""
        return next((fix for fix in self.fixes if fix.state == "verifying"), None)

    @property
    def code(self) -> Code:
        """Code for the target in view, and that of this machine for graphs that could not be lowered."""
        return code_in_view(self.code_for(self.target), self.code_for(NATIVE))

    @property
    def other_codes(self) -> tuple[Code, ...]:
        """Code for every target but the one in view."""
        return tuple(code for code in self.codes if code.target != self.target)

    def apply(self, event: ev.Event) -> Snapshot:
        """Return the snapshot with one more event; ignore an event of another run."""
        if event.run != self.run:
            return self
        kind = type(event)
        if step := _special_steps().get(kind):
            return step(self, event)
        if field := event_fields(Snapshot).get(kind):
            return field.add(self, event)
        return _add_code(self, event) if kind in event_fields(Code) else self

    def apply_all(self, events: Iterable[ev.Event]) -> Snapshot:
        """Return the snapshot with more events. Those that only have a field of their type are added together: a
        large trace has a hundred thousand of them.
        """
        snapshot, waiting = self, list[ev.Event]()
        own, of_code, special = event_fields(Snapshot), event_fields(Code), _special_steps()
        for event in events:
            kind = type(event)
            if kind in special or event.run != self.run or (kind not in own and kind not in of_code):
                snapshot = _add_plain(snapshot, waiting).apply(event)
                waiting = []
            else:
                waiting.append(event)
        return _add_plain(snapshot, waiting)

    def has_code(self, target: str) -> bool:
        """Return whether code for a target was generated or failed to generate."""
        code = self.code_for(target)
        return target == NATIVE or bool(code.kernels or code.lowered or code.not_lowered)

    def code_for(self, target: str) -> Code:
        """Return the code for a target, empty if there is none."""
        return next((code for code in self.codes if code.target == target), Code(target=target))

    def with_target(self, target: str) -> Snapshot:
        """Return the same run with another target in view."""
        return self if target == self.target else replace(self, target=target)


def start_snapshot(job: ev.Job, began: float = 0.0) -> Snapshot:
    """Return the snapshot of a new run, with its own target in view."""
    return Snapshot(
        run=job.run, file=job.file, source=job.source, config=job.config, trace=job.trace,
        target=target_of(job.config), began=began,
    )  # fmt: skip


def trials(snapshot: Snapshot, source: str) -> tuple[EarlierTrial, ...]:
    """Return the trials of steps in a run and in those before it, the newest of each step.

    `source` is the text of the model file in the next run.
    """
    changed = source != snapshot.source
    earlier = (replace(trial, file_changed=trial.file_changed or changed) for trial in snapshot.tried_before)
    own = (EarlierTrial(snapshot.run, tried, changed) for tried in snapshot.steps_tried)
    return tuple({trial.tried.step: trial for trial in (*earlier, *own)}.values())


def end_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of a run that the next run ends."""
    if snapshot.status != "running":
        return snapshot
    return replace(snapshot, status="ok" if snapshot.complete else "superseded", phase="")


def _add_code(snapshot: Snapshot, event: Any) -> Snapshot:
    return _with_code(snapshot, snapshot.code_for(event.target).add(event))


def _with_code(snapshot: Snapshot, grown: Code) -> Snapshot:
    if all(code.target != grown.target for code in snapshot.codes):
        return replace(snapshot, codes=(*snapshot.codes, grown))
    return replace(snapshot, codes=tuple(grown if code.target == grown.target else code for code in snapshot.codes))


def _add_plain(snapshot: Snapshot, events: Sequence[Any]) -> Snapshot:
    """Add events that have a field of their type in the snapshot or in its code."""
    if not events:
        return snapshot
    own = event_fields(Snapshot)
    snapshot = add_all(snapshot, (event for event in events if type(event) in own))
    of_target: dict[str, list[ev.Event]] = {}
    for event in events:
        if type(event) not in own:
            of_target.setdefault(event.target, []).append(event)
    for target, added in of_target.items():
        snapshot = _with_code(snapshot, add_all(snapshot.code_for(target), added))
    return snapshot


def _begin_phase(snapshot: Snapshot, event: ev.PhaseStarted) -> Snapshot:
    seconds = dict(snapshot.phase_seconds)
    if snapshot.phase:
        seconds[snapshot.phase] = seconds.get(snapshot.phase, 0.0) + max(0.0, event.at - snapshot.phase_at)
    return replace(
        snapshot, phase=event.phase, phase_graph=event.graph, phase_at=event.at, phase_seconds=tuple(seconds.items())
    )


def _add_graph(snapshot: Snapshot, event: ev.GraphCaptured) -> Snapshot:
    """Add a graph. One with the same compile id was discarded: torch restarted the analysis of its frame."""
    kept = tuple(captured for captured in snapshot.graphs if captured.graph != event.graph)
    if len(kept) < len(snapshot.graphs):
        codes = tuple(code.without_graph(event.graph) for code in snapshot.codes)
        snapshot = replace(snapshot, codes=codes, symbols=tuple(s for s in snapshot.symbols if s.graph != event.graph))
    return replace(snapshot, graphs=(*kept, event))


def _add_output(snapshot: Snapshot, event: ev.Output) -> Snapshot:
    output = snapshot.output
    joined = output[-1].joined(event) if output else None
    output = (*output, event) if joined is None else (*output[:-1], joined)
    dropped, size = snapshot.output_dropped, sum(len(chunk.text) for chunk in output)
    while size > OUTPUT_LIMIT and len(output) > 1:
        dropped, size, output = dropped + len(output[0].text), size - len(output[0].text), output[1:]
    return replace(snapshot, output=output, output_dropped=dropped)


def _add_recompile(snapshot: Snapshot, event: ev.Recompiled) -> Snapshot:
    """Add a recompile, or complete the last ones: a trace has the new value or the limit only in later records."""

    def incomplete(other: ev.Recompiled) -> bool:
        same = (other.graph, other.failed_entry) == (event.graph, event.failed_entry)
        more = (event.new and not other.new) or (event.limit_hit and not other.limit_hit)
        return same and other.failed_guard == event.failed_guard and bool(more)

    if not any(map(incomplete, snapshot.recompiles)):
        return replace(snapshot, recompiles=(*snapshot.recompiles, event))
    return replace(snapshot, recompiles=tuple(event if incomplete(other) else other for other in snapshot.recompiles))


def _restarted(snapshot: Snapshot) -> Snapshot:
    """Forget what was captured of the calls, and keep what is known since before them."""
    kept = (
        "run", "file", "source", "config", "trace", "began", "past", "status", "phase", "phase_graph", "phase_at",
        "phase_seconds", "entry", "target", "output", "output_dropped", "modules", "imported_ahead",
        "compiler_loaded", "sources", "repeated_blocks", "expected_calls", "missing_facts",
    )  # fmt: skip
    return Snapshot(**{name: getattr(snapshot, name) for name in kept})


def _add_break(snapshot: Snapshot, event: ev.GraphBreak) -> Snapshot:
    """Count a break that nested frames report again instead of listing it twice."""

    def same(other: ev.GraphBreak) -> bool:
        return (other.location, other.kind) == (event.location, event.kind) and other.location is not None

    if not any(map(same, snapshot.breaks)):
        return replace(snapshot, breaks=(*snapshot.breaks, event))
    merged = tuple(replace(b, count=b.count + event.count) if same(b) else b for b in snapshot.breaks)
    return replace(snapshot, breaks=merged)


def _add_timing(snapshot: Snapshot, event: ev.TimingEstimate) -> Snapshot:
    """Add an estimate, and scale the account of the call to it."""
    if snapshot.is_script:
        return replace(snapshot, timing=event)
    account, costs = call_account(snapshot.call_profile, event), mark_contradiction(snapshot.break_costs, event)
    return replace(snapshot, timing=event, call_account=account, break_costs=costs)


def _add_profile(snapshot: Snapshot, event: ev.CallProfiled) -> Snapshot:
    return replace(snapshot, call_profile=event, call_account=call_account(event, snapshot.timing))


def _add_eager_lines(snapshot: Snapshot, event: ev.EagerLinesTimed) -> Snapshot:
    """Add the lines of a call; those of a script are of its steps, and stay beside those of a captured call."""
    if not snapshot.is_script:
        return replace(snapshot, eager_lines=event)
    return replace(snapshot, step_lines=event, eager_lines=_lines_of_script(snapshot.captured_calls, event))


def _lines_of_script(
    captured: Sequence[ev.CallExamined], step_lines: ev.EagerLinesTimed | None
) -> ev.EagerLinesTimed | None:
    """Return the lines of the first captured call; those of a step until it is measured, after all calls are compared.

    A profile alone splits the compiled call into lines.
    """
    if captured and (captured[0].eager_lines is not None or captured[0].profile is not None):
        return captured[0].eager_lines
    return step_lines


def _add_break_costs(snapshot: Snapshot, event: ev.BreakCosts) -> Snapshot:
    costs = mark_contradiction(event, snapshot.timing)
    return replace(snapshot, break_costs=costs, first_break_costs=snapshot.first_break_costs or event)


def _add_examined(snapshot: Snapshot, event: ev.CallExamined) -> Snapshot:
    """Add the results of a captured call; those of the first one are shown as those of a call."""
    known = snapshot.captured_calls
    same = [(call.region, call.call) == (event.region, event.call) for call in known]
    calls = tuple(event if is_same else call for call, is_same in zip(known, same, strict=True))
    calls = calls if any(same) else (*known, event)
    first, compared = calls[0], [call.accuracy for call in calls if call.accuracy is not None]
    costs = mark_contradiction(first.break_costs, first.timing)
    return replace(
        snapshot, captured_calls=calls, memory=first.memory, call_profile=first.profile,
        accuracy=max(compared, key=lambda one: ev.ACCURACY_VERDICTS.index(one.verdict), default=None),
        call_account=call_account(first.profile, first.timing),
        eager_lines=_lines_of_script(calls, snapshot.step_lines),
        break_costs=costs, first_break_costs=snapshot.first_break_costs or first.break_costs,
    )  # fmt: skip


def _replace_sizes(snapshot: Snapshot, event: ev.SizesSeen) -> Snapshot:
    others = tuple(seen for seen in snapshot.sizes_seen if seen.region != event.region)
    return replace(snapshot, sizes_seen=(*others, event))


def _add_source(snapshot: Snapshot, event: ev.SourceRead) -> Snapshot:
    """Add the text of another file. A trace gives that of the main file at its end."""
    if event.file == snapshot.file:
        return replace(snapshot, source=event.text)
    others = tuple(source for source in snapshot.sources if source.file != event.file)
    return replace(snapshot, sources=(*others, event))


def _replace_region_calls(snapshot: Snapshot, event: ev.RegionCalls) -> Snapshot:
    known = snapshot.region_calls
    if all(calls.region != event.region for calls in known):
        return replace(snapshot, region_calls=(*known, event))
    return replace(snapshot, region_calls=tuple(event if calls.region == event.region else calls for calls in known))


def _add_frame(snapshot: Snapshot, event: ev.FrameEntered) -> Snapshot:
    """Number the call that enters the frame: the event of the call arrives only after it. A trace has no calls."""
    if not snapshot.trace and not snapshot.is_script:
        event = replace(event, call=1 + sum(call.variant == "compiled" for call in snapshot.calls))
    return replace(snapshot, frames=(*snapshot.frames, event))


def _replace_fix(snapshot: Snapshot, event: ev.BreakFix) -> Snapshot:
    others = tuple(fix for fix in snapshot.fixes if (fix.location, fix.kind) != (event.location, event.kind))
    return replace(snapshot, fixes=(*others, event))


def _replace_recompile_answer(snapshot: Snapshot, event: ev.RecompileAnswer) -> Snapshot:
    """Add an answer, last, and drop that to an earlier query of the same number: the user is still typing it.

    Once the user has asked, an answer to what was typed before is none.
    """
    asked = snapshot.recompile_asked
    if asked is not None and asked[0] == event.number and asked[1] != event.asked:
        return snapshot
    others = tuple(answer for answer in snapshot.recompile_answers if answer.number != event.number)
    waiting = None if asked is None or asked[0] == event.number else asked
    return replace(snapshot, recompile_answers=(*others, event), recompile_asked=waiting)


def _replace_worker_report(snapshot: Snapshot, event: ev.CompileWorkerReport) -> Snapshot:
    """Add a report, and drop the earlier ones on the same job."""
    others = tuple(report for report in snapshot.compile_workers if report.job is None or report.job != event.job)
    return replace(snapshot, compile_workers=(*others, event))


def _replace_guard_filter(snapshot: Snapshot, event: ev.GuardFilterTried) -> Snapshot:
    known = {tried.name: tried for tried in snapshot.guard_filters}
    return replace(snapshot, guard_filters=tuple({**known, event.name: event}.values()))


def _replace_step_tried(snapshot: Snapshot, event: ev.StepTried) -> Snapshot:
    known = {tried.step: tried for tried in snapshot.steps_tried}
    return replace(snapshot, steps_tried=tuple({**known, event.step: event}.values()))


@cache
def _special_steps() -> dict[type[ev.Event], Callable[[Snapshot, Any], Snapshot]]:
    """Return the functions for events that need more than a field of their type."""
    return {
        ev.CallsRestarted: lambda s, _: _restarted(s),
        ev.PhaseStarted: _begin_phase,
        ev.GraphCaptured: _add_graph,
        ev.GraphBreak: _add_break,
        ev.Recompiled: _add_recompile,
        ev.BreakFix: _replace_fix,
        ev.GuardFilterTried: _replace_guard_filter,
        ev.StepTried: _replace_step_tried,
        ev.RecompileAnswer: _replace_recompile_answer,
        ev.CompileWorkerReport: _replace_worker_report,
        ev.FrameEntered: _add_frame,
        ev.TimingEstimate: _add_timing,
        ev.CallProfiled: _add_profile,
        ev.EagerLinesTimed: _add_eager_lines,
        ev.CallExamined: _add_examined,
        ev.SizesSeen: _replace_sizes,
        ev.BreakCosts: _add_break_costs,
        ev.TimingSkipped: lambda s, e: replace(s, timing_skipped=e.reason),
        ev.Output: _add_output,
        ev.SourceRead: _add_source,
        ev.ModulesImported: lambda s, e: replace(s, modules=e.files),
        ev.RegionCalls: _replace_region_calls,
        ev.Failed: lambda s, e: replace(s, failure=e, status="failed", phase=""),
        ev.Finished: lambda s, _: replace(s, status="failed" if s.failure else "ok", phase=""),
    }


def mark_contradiction(costs: ev.BreakCosts | None, timing: ev.TimingEstimate | None) -> ev.BreakCosts | None:
    """Return the costs with why they and the timing cannot be true of the same call, if so.

    They stay: breaks whose costs vanish would change their order.
    """
    if costs is None or timing is None or timing.verdict == "measuring":
        return costs
    unit = "a call" if timing.calls == 1 else f"{timing.calls} calls"
    took, timed = duration(costs.total_us / 1e6), duration(timing.unit_us / 1e6)
    reason = f"{unit} took {took} when the breaks were measured, but {timed} in the timing"
    return replace(costs, contradicted="" if costs.agrees_with(timing) else reason)
