"""The regions view of a script: a row for each compiled region, with its compiles and recompiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, Span, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.recompile_rows import describe_failed_guard
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import RegionCalls, ScriptEnded
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import (
    BACKWARD,
    BACKWARD_AGAIN,
    COMPILE,
    RECOMPILE,
    CompileMark,
    RegionTimeline,
    Timeline,
    timeline,
)
from tcexplore.session.links import line_links
from tcexplore.session.next_steps import made_in_each_step

GLYPHS = {COMPILE: "●", RECOMPILE: "↻", BACKWARD: "◁", BACKWARD_AGAIN: "◀"}
STYLES = {COMPILE: "strong", RECOMPILE: "recompile", BACKWARD: "label.1", BACKWARD_AGAIN: "recompile"}
"""Style of each mark; the mark continues as a line for its duration."""

_LINE = "━"
_BARS = "▁▂▃▄▅▆▇█"
_IDLE = "·"


_COMPILES = {
    COMPILE: "compiled", RECOMPILE: "recompiled", BACKWARD: "backward compiled",
    BACKWARD_AGAIN: "backward recompiled",
}  # fmt: skip


EMPTY_TEXT = (
    "The regions of a script that calls torch.compile itself appear here: a row for each compiled function, module "
    "or optimizer step, with its calls, compiles and recompiles."
)

NO_SCRIPT = (
    "This file is not a script: tcexplore compiles it and makes the calls itself. The timing view lists them. A file "
    "without `model` and `inputs` that uses torch.compile runs as a script."
)

FEW = 6
"""Compiles of a region outside the fold."""


def regions_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    lanes = timeline(snapshot)
    if not lanes.regions:
        if snapshot.entry is not None and snapshot.entry.kind != "script":
            return Parts("", [fixed(wrapped(NO_SCRIPT, width, "muted"))])
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.CALLS)])
    rows = [*_head(snapshot, lanes.seconds, width)]
    for lane in lanes.regions:
        rows += _lane(lane, lanes.seconds, places(snapshot.file), toggled, width)
    return Parts(summarize_regions(lanes).partition(" · ")[0], [fixed(rows)])


def region_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the figures of each region in brief."""
    where = places(snapshot.file)
    for lane in timeline(snapshot).regions:
        at = lane.region.location
        links = line_links(at)
        yield row((f" {lane.name}", "title"), (f"  {where.describe(at)}", "muted"), links=links, location=at)
        yield from wrapped(" · ".join(region_figures(lane)), width, indent=3, links=links, location=at)


def _head(snapshot: Snapshot, seconds: float, width: int) -> Iterator[Row]:
    yield from wrapped(summarize_regions(timeline(snapshot)), width, "strong")
    if text := describe_ending(snapshot.script_end):
        limit = snapshot.script_end is not None and snapshot.script_end.time_limit is not None
        yield from wrapped(text, width, "warn" if limit else "muted", lead="! " if limit else "")
    yield from wrapped(_legend(timeline(snapshot)), width, "muted")
    end = duration(seconds)
    yield row((" 0 s" + " " * max(1, width - 5 - len(end)) + end, "dim"))


def _legend(lanes: Timeline) -> str:
    """Return what the marks of the lanes mean."""
    kinds = {mark.kind for lane in lanes.regions for mark in lane.marks}
    marks = [f"{GLYPHS[kind]} {name}" for kind, name in _COMPILES.items() if kind in kinds]
    lasts = f", {_LINE} until the call returns" if marks else ""
    return f"{', '.join(marks)}{lasts}{', ' if marks else ''}{_BARS[0]}{_BARS[-1]} calls, {_IDLE} none"


def _lane(lane: RegionTimeline, seconds: float, where: Places, toggled: frozenset[str], width: int) -> Iterator[Row]:
    at = lane.region.location
    links = line_links(at)
    kind = "" if lane.region.kind == "function" else f"  {lane.region.kind}"
    yield row((f" {lane.name}", "title"), (f"{kind}  {where.describe(at)}", "muted"), links=links, location=at)
    if lane.calls is not None:
        yield row(" ", *draw_lane(lane, seconds, max(8, width - 2)), links=links, location=at)
    if lane.region.arguments:
        yield from wrapped(", ".join(lane.region.arguments), width, "code.python", links=links, location=at)
    yield from wrapped(" · ".join(region_figures(lane)), width, links=links, location=at)
    if lane.calls is not None and (ran := " · ".join(graph_figures(lane.calls))):
        yield from wrapped(ran, width, "warn" if lane.calls.uncompiled else "", links=links, location=at)
    yield from _marks(lane, where, toggled, width)
    if text := suggest_region_fix(lane):
        yield from wrapped(text, width, "ok", indent=3, lead="try ", links=links, location=at)
    yield BLANK


def _marks(lane: RegionTimeline, where: Places, toggled: frozenset[str], width: int) -> Iterator[Row]:
    name = f"region {lane.region.region}"
    opened = name in toggled
    shown = lane.marks if opened else lane.marks[:FEW]
    for mark in shown:
        yield from _mark(mark, where, width)
    if (rest := len(lane.marks) - FEW) > 0:
        yield fold(name, opened, ("fewer" if opened else f"{rest} more", "muted"), indent=3)


def _mark(mark: CompileMark, where: Places, width: int) -> Iterator[Row]:
    again = mark.causes[0].location if mark.causes else None
    links = line_links(again)
    lead = f"{GLYPHS[mark.kind]} "
    yield row(("   " + lead, STYLES[mark.kind]), describe_compile(mark), (f"  {where.describe(again)}", "muted"),
              links=links, location=again)  # fmt: skip
    for reason in recompile_reasons(mark):
        yield from wrapped(reason, width, "muted", indent=5, links=links, location=again)


def summarize_regions(timeline: Timeline) -> str:
    """Return `3 regions · 1,004 calls · 5 compiles, 9.20 s · 2 recompiles, 2.01 s`."""
    marks = [mark for lane in timeline.regions for mark in lane.marks]
    parts = [count(len(timeline.regions), "region"), count(timeline.calls, "call"), *_compile_figures(marks, ",")]
    return " · ".join(parts)


def _compile_figures(marks: Iterable[CompileMark], after_count: str = "") -> Iterator[str]:
    """Yield the number and time of the compiles of calls, and of the recompiles: `2 recompiles 3.00 s`."""
    of_calls = [mark for mark in marks if mark.call is not None]
    if first := [mark for mark in of_calls if not mark.repeated]:
        yield f"{count(len(first), 'compile')}{after_count} {duration(sum(mark.seconds for mark in first))}"
    if again := [mark for mark in of_calls if mark.repeated]:
        recompiles = count(sum(mark.recompiles for mark in again), "recompile")
        yield f"{recompiles}{after_count} {duration(sum(mark.seconds for mark in again))}"


def describe_ending(script: ScriptEnded | None) -> str:
    """Return how the script ended, empty while it runs."""
    if script is None:
        return ""
    if script.time_limit is None:
        return f"the script ran for {duration(script.seconds)}"
    return f"stopped after {script.time_limit:g} s: --follow S sets the limit in seconds, 0 means no limit"


def region_figures(lane: RegionTimeline) -> Iterator[str]:
    """Yield the figures of a region: calls, compiles, time of a warm call."""
    seen = lane.calls
    if seen is None:
        yield "no call has returned"
        return
    yield count(seen.calls, "call")
    yield from _compile_figures(lane.marks)
    if backward := [mark for mark in lane.marks if mark.call is None]:
        yield f"{count(len(backward), 'backward')} compiled {duration(sum(mark.seconds for mark in backward))}"
    if seen.median_us is not None:
        yield format_warm_call(seen)


def format_warm_call(seen: RegionCalls) -> str:
    """Return `warm 84.1 µs (80.0 µs to 92.0 µs)`."""
    low, median, high = (duration((us or 0.0) / 1e6) for us in (seen.low_us, seen.median_us, seen.high_us))
    return f"warm {median} ({low} to {high})" if seen.sampled > 1 else f"warm {median}"


def graph_figures(seen: RegionCalls) -> Iterator[str]:
    """Yield how many graphs the calls ran, how many after a break, and how many calls ran none."""
    if seen.entered is not None and seen.entered:
        each = seen.entered / seen.calls
        yield f"{each:.3g} {'graph' if each == 1 else 'graphs'} per call"
        if seen.resumed:
            yield f"{count(seen.resumed, 'entry') if seen.resumed == 1 else f'{seen.resumed:,} entries'} after a break"
    if seen.made > 1:
        yield f"made by {count(seen.made, 'call')} of torch.compile"
    if seen.uncompiled:
        yield f"{count(seen.uncompiled, 'call')} ran eagerly, without a graph"
    if seen.raised:
        yield f"{count(seen.raised, 'call')} raised"
    if seen.eager:
        yield f"{count(seen.eager, 'further call')} made eagerly to time steps"


def suggest_region_fix(lane: RegionTimeline) -> str:
    """Return how to avoid `torch.compile` in each step, or recompiles that a learning rate causes; else nothing."""
    rates = (again.kind == "float" and again.name.endswith("['lr']") for mark in lane.marks for again in mark.causes)
    if lane.calls is not None and made_in_each_step(lane.calls):
        return "torch.compile once, before the loop"
    if lane.region.kind != "optimizer" or not any(rates):
        return ""
    return (
        "the learning rate is a float, a constant in the compiled code: use lr=torch.tensor(…), change it with "
        ".fill_(), and set capturable=True if the optimizer requires it"
    )


def describe_compile(mark: CompileMark) -> str:
    """Return `call 3 at 1.97 s: recompiled 0/1, 2.01 s`."""
    which = f"call {mark.call} at" if mark.call is not None else "at"
    return f"{which} {duration(mark.at)}: {_COMPILES[mark.kind]} {', '.join(mark.graphs)}, {duration(mark.seconds)}"


def recompile_reasons(mark: CompileMark) -> Iterator[str]:
    """Yield the failed guard of each recompiled graph, and why a backward was recaptured."""
    yield from dict.fromkeys(map(describe_failed_guard, mark.causes))
    if mark.capture_reason is not None:
        yield (f"recaptured: {mark.capture_reason}" if mark.capture_reason else "recaptured: torch gives no reason")


def draw_lane(lane: RegionTimeline, seconds: float, cells: int) -> tuple[Span, ...]:
    """Return `cells` cells for `seconds`; bars count calls, relative to the busiest cell."""
    drawn = _bars(lane, seconds, cells)
    for mark in sorted(lane.marks, key=lambda mark: mark.repeated):
        first, last = (_cell(at, seconds, cells) for at in (mark.at, mark.at + mark.seconds))
        style = STYLES[mark.kind]
        for cell in range(first, last + 1):
            drawn[cell] = (_LINE, style)
        drawn[first] = (GLYPHS[mark.kind], style)
    return tuple(_joined(drawn))


def _bars(lane: RegionTimeline, seconds: float, cells: int) -> list[tuple[str, str]]:
    counts = [0] * cells
    if lane.calls is not None:
        for index, calls in enumerate(lane.calls.activity):
            counts[_cell((index + 0.5) * lane.calls.bin_s, seconds, cells)] += calls
    most = max(counts, default=0)
    return [(_BARS[(calls * len(_BARS) - 1) // most], "kernel.0") if calls else (_IDLE, "dim") for calls in counts]


def _cell(at: float, seconds: float, cells: int) -> int:
    return min(max(int(at / seconds * cells), 0), cells - 1) if seconds else 0


def _joined(drawn: list[tuple[str, str]]) -> Iterator[Span]:
    for style, group in groupby(drawn, key=lambda cell: cell[1]):
        yield Span("".join(glyph for glyph, _ in group), style)
