"""All that is known of one run so far: an immutable record that grows as events arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from tcexplore import events as ev
from tcexplore.session.code import CODE_EVENTS, NATIVE, Code, target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One run. `status` is `running`, `ok`, `failed` or `superseded` (ended by the next run before it was complete).

    Tuples hold events in the order of their arrival.
    """

    run: int
    file: str
    source: str
    """The file's text at the save that started this run."""
    config: ev.Config
    status: str = "running"
    phase: ev.Phase | Literal[""] = ""
    phase_graph: str | None = None
    entry: ev.EntryFound | None = None
    graphs: tuple[ev.GraphCaptured, ...] = ()
    breaks: tuple[ev.GraphBreak, ...] = ()
    skipped_frames: tuple[ev.FrameSkipped, ...] = ()
    eager_ops: ev.EagerOps | None = None
    guards: tuple[ev.GuardsInstalled, ...] = ()
    recompiles: tuple[ev.Recompiled, ...] = ()
    frames: tuple[ev.FrameEntered, ...] = ()
    symbols: tuple[ev.GraphSymbols, ...] = ()
    recompile_answers: tuple[ev.RecompileAnswer, ...] = ()
    target: str = NATIVE
    """Target in view: `native` or a name of the device table."""
    codes: tuple[Code, ...] = ()
    """Generated code, one entry per target with any."""
    device_queries: tuple[ev.DeviceQueried, ...] = ()
    cache_lookups: tuple[ev.CacheLookup, ...] = ()
    phase_times: tuple[ev.PhaseTimed, ...] = ()
    calls: tuple[ev.CallMade, ...] = ()
    pairs: tuple[ev.PairsMeasured, ...] = ()
    timing: ev.TimingEstimate | None = None
    timing_skipped: str = ""
    accuracy: ev.Accuracy | None = None
    memory: ev.Memory | None = None
    call_profile: ev.CallProfiled | None = None
    break_costs: ev.BreakCosts | None = None
    change_check: ev.ChangeChecked | None = None
    change_timing: ev.ChangeTimed | None = None
    padding_check: ev.PaddingChecked | None = None
    device: ev.DeviceFacts | None = None
    kernel_times: tuple[ev.KernelTimed, ...] = ()
    autotuned: tuple[ev.Autotuned, ...] = ()
    cuda_graphs: tuple[ev.CudaGraphRecorded, ...] = ()
    cuda_graphs_skipped: tuple[ev.CudaGraphSkipped, ...] = ()
    kernel_compiles: tuple[ev.KernelCompiled, ...] = ()
    graph_scripts: tuple[ev.GraphScript, ...] = ()
    kernel_scripts: tuple[ev.KernelScript, ...] = ()
    output: tuple[ev.Output, ...] = ()
    output_dropped: int = 0
    """Characters of output that were let go because there was too much of it."""
    modules: tuple[str, ...] = ()
    sources: tuple[ev.SourceRead, ...] = ()
    regions: tuple[ev.RegionCreated, ...] = ()
    region_graphs: tuple[ev.RegionGraph, ...] = ()
    backward_captures: tuple[ev.BackwardCaptured, ...] = ()
    region_compiles: tuple[ev.RegionCompiled, ...] = ()
    region_calls: tuple[ev.RegionCalls, ...] = ()
    """The newest of each region, in the order of the regions' first calls."""
    script_end: ev.ScriptEnded | None = None
    state_keys: ev.StateKeys | None = None
    artifacts_saved: ev.ArtifactsSaved | None = None
    artifacts_loaded: ev.ArtifactsLoaded | None = None
    failure: ev.Failed | None = None
    expected_calls: int | None = None
    """For how many calls the user wants to know what compiling wins."""
    missing_facts: tuple[ev.FactMissing, ...] = ()

    @property
    def compiled(self) -> bool:
        """Whether anything was compiled at all."""
        return bool(self.graphs)

    @property
    def complete(self) -> bool:
        """Whether everything but further timing is known: the compile is over and nothing failed."""
        return self.status == "ok" or (self.status == "running" and self.phase in SETTLED)

    def apply(self, event: ev.Event) -> Snapshot:
        """This snapshot with one more event in it; an event of another run leaves it as it is."""
        step = _steps().get(type(event))
        return self if step is None or event.run != self.run else step(self, event)

    def has_code(self, target: str) -> bool:
        """Whether the code for a target was generated, or could not be."""
        code = self.code_for(target)
        return target == NATIVE or bool(code.kernels or code.lowered or code.not_lowered)

    @property
    def code(self) -> Code:
        """Code for the target in view."""
        return self.code_for(self.target)

    @property
    def other_codes(self) -> tuple[Code, ...]:
        """Code for every target but the one in view."""
        return tuple(code for code in self.codes if code.target != self.target)

    def code_for(self, target: str) -> Code:
        """Return the code for a target, empty if there is none."""
        return next((code for code in self.codes if code.target == target), Code(target=target))

    def with_target(self, target: str) -> Snapshot:
        """Return the same run with another target in view."""
        return self if target == self.target else replace(self, target=target)


def start_snapshot(job: ev.Job) -> Snapshot:
    """A run of which nothing is known yet but its job; the code for its own target is in view."""
    return Snapshot(run=job.run, file=job.file, source=job.source, config=job.config, target=target_of(job.config))


def end_snapshot(snapshot: Snapshot) -> Snapshot:
    """A run that the next one ended, if it was not over: nothing more will be known of it."""
    if snapshot.status != "running":
        return snapshot
    return replace(snapshot, status="ok" if snapshot.complete else "superseded", phase="")


SETTLED = ("accuracy", "assembling", "timing", "switching", "comparing", "answering")
"""Phases in which nothing is compiled any more."""

Step = Callable[[Snapshot, Any], Snapshot]

OUTPUT_KEPT = 2_000_000
"""Characters of output kept per run; the oldest go first."""


def _append(field: str) -> Step:
    def step(snapshot: Snapshot, event: ev.Event) -> Snapshot:
        grown: dict[str, Any] = {field: (*getattr(snapshot, field), event)}
        return replace(snapshot, **grown)

    return step


def _set(field: str) -> Step:
    def step(snapshot: Snapshot, event: ev.Event) -> Snapshot:
        changed: dict[str, Any] = {field: event}
        return replace(snapshot, **changed)

    return step


def _code(snapshot: Snapshot, event: Any) -> Snapshot:
    """Add an event to the code of its target."""
    grown = snapshot.code_for(event.target).add(event)
    if all(code.target != event.target for code in snapshot.codes):
        return replace(snapshot, codes=(*snapshot.codes, grown))
    return replace(snapshot, codes=tuple(grown if code.target == event.target else code for code in snapshot.codes))


def _output(snapshot: Snapshot, event: ev.Output) -> Snapshot:
    output = snapshot.output
    if output and output[-1].stream == event.stream and len(output[-1].text) < 65_536:
        output, event = output[:-1], replace(event, text=output[-1].text + event.text)
    output = (*output, event)
    dropped, size = snapshot.output_dropped, sum(len(o.text) for o in output)
    while size > OUTPUT_KEPT and len(output) > 1:
        dropped, size, output = dropped + len(output[0].text), size - len(output[0].text), output[1:]
    return replace(snapshot, output=output, output_dropped=dropped)


def _break(snapshot: Snapshot, event: ev.GraphBreak) -> Snapshot:
    """A break that nested frames report again adds to its count instead of standing there twice."""

    def same(other: ev.GraphBreak) -> bool:
        return (other.location, other.kind) == (event.location, event.kind) and other.location is not None

    if not any(map(same, snapshot.breaks)):
        return replace(snapshot, breaks=(*snapshot.breaks, event))
    merged = tuple(replace(b, count=b.count + event.count) if same(b) else b for b in snapshot.breaks)
    return replace(snapshot, breaks=merged)


def _seen(snapshot: Snapshot, event: ev.RegionCalls) -> Snapshot:
    """What is newly known of a region's calls takes the place of what was."""
    known = snapshot.region_calls
    if all(seen.region != event.region for seen in known):
        return replace(snapshot, region_calls=(*known, event))
    return replace(snapshot, region_calls=tuple(event if seen.region == event.region else seen for seen in known))


def _failed(snapshot: Snapshot, event: ev.Failed) -> Snapshot:
    return replace(snapshot, failure=event, status="failed", phase="")


def _finished(snapshot: Snapshot, _: ev.Finished) -> Snapshot:
    return replace(snapshot, status="failed" if snapshot.failure else "ok", phase="")


def _entered(snapshot: Snapshot, event: ev.FrameEntered) -> Snapshot:
    """A frame is entered in a call of which nothing is heard before it is over."""
    if snapshot.entry is None or snapshot.entry.kind != "script":
        event = replace(event, call=1 + sum(call.variant == "compiled" for call in snapshot.calls))
    return replace(snapshot, frames=(*snapshot.frames, event))


def _of_dynamo() -> dict[type, Step]:
    return {
        ev.GraphCaptured: _append("graphs"),
        ev.GraphBreak: _break,
        ev.FrameSkipped: _append("skipped_frames"),
        ev.EagerOps: _set("eager_ops"),
        ev.GuardsInstalled: _append("guards"),
        ev.Recompiled: _append("recompiles"),
        ev.FrameEntered: _entered,
        ev.GraphSymbols: _append("symbols"),
        ev.RecompileAnswer: _append("recompile_answers"),
    }


@cache
def _steps() -> dict[type, Step]:
    return {
        ev.PhaseStarted: lambda s, e: replace(s, phase=e.phase, phase_graph=e.graph),
        ev.EntryFound: _set("entry"),
        **_of_dynamo(),
        **{getattr(ev, name): _code for name in CODE_EVENTS},
        ev.DeviceQueried: _append("device_queries"),
        ev.CacheLookup: _append("cache_lookups"),
        ev.PhaseTimed: _append("phase_times"),
        ev.CallMade: _append("calls"),
        ev.PairsMeasured: _append("pairs"),
        ev.TimingEstimate: _set("timing"),
        ev.TimingSkipped: lambda s, e: replace(s, timing_skipped=e.reason),
        ev.Accuracy: _set("accuracy"),
        ev.Memory: _set("memory"),
        ev.CallProfiled: _set("call_profile"),
        ev.BreakCosts: _set("break_costs"),
        ev.ChangeChecked: _set("change_check"),
        ev.PaddingChecked: _set("padding_check"),
        ev.ChangeTimed: _set("change_timing"),
        ev.DeviceFacts: _set("device"),
        ev.KernelTimed: _append("kernel_times"),
        ev.Autotuned: _append("autotuned"),
        ev.CudaGraphRecorded: _append("cuda_graphs"),
        ev.CudaGraphSkipped: _append("cuda_graphs_skipped"),
        ev.KernelCompiled: _append("kernel_compiles"),
        ev.GraphScript: _append("graph_scripts"),
        ev.KernelScript: _append("kernel_scripts"),
        ev.Output: _output,
        ev.SourceRead: _append("sources"),
        ev.ModulesImported: lambda s, e: replace(s, modules=e.files),
        ev.RegionCreated: _append("regions"),
        ev.RegionGraph: _append("region_graphs"),
        ev.BackwardCaptured: _append("backward_captures"),
        ev.RegionCompiled: _append("region_compiles"),
        ev.RegionCalls: _seen,
        ev.ScriptEnded: _set("script_end"),
        ev.StateKeys: _set("state_keys"),
        ev.ArtifactsSaved: _set("artifacts_saved"),
        ev.ArtifactsLoaded: _set("artifacts_loaded"),
        ev.Failed: _failed,
        ev.Finished: _finished,
        ev.FactMissing: _append("missing_facts"),
    }
