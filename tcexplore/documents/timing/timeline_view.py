"""The time line of a script: a lane for each compiled region, and below it what was compiled when, and why again."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import regions_text as words
from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.timing.region_strip import GLYPHS, STYLES, strip
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link
from tcexplore.session.timeline import CompileMark, RegionLane, timeline

TEACHES = (
    "A script that compiles things itself has a time line here: a lane for each function, module or optimizer step "
    "that it compiled, with its calls, and where it stopped to compile, or to compile again."
)

NO_SCRIPT = (
    "This file is no script: tcexplore compiled it and made the calls itself, one after another. The calls stand in "
    "the timing view. A file without `model` and `inputs` that uses torch.compile is run as a script, and followed."
)

FEW = 6
"""So many compiles of a region are told before a fold has the others."""


def timeline_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the view."""
    found = timeline(snapshot)
    if not found.lanes:
        if snapshot.entry is not None and snapshot.entry.kind != "script":
            return Parts("", [fixed(wrapped(NO_SCRIPT, width, "muted"))])
        return Parts("", [empty_part(snapshot, width, TEACHES)])
    rows = [*_head(snapshot, found.seconds, width)]
    for lane in found.lanes:
        rows += _lane(lane, found.seconds, places(snapshot.file), toggled, width)
    return Parts(words.summarize_timeline(found).partition(" · ")[0], [fixed(rows)])


def region_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What the calls of each region took, in short."""
    where = places(snapshot.file)
    for lane in timeline(snapshot).lanes:
        at = lane.region.location
        links = (line_link(at),) if at else ()
        yield row((f" {lane.region.name}", "title"), (f"  {where.describe(at)}", "muted"), links=links, location=at)
        yield from wrapped(" · ".join(words.region_figures(lane)), width, indent=3, links=links, location=at)


def _head(snapshot: Snapshot, seconds: float, width: int) -> Iterator[Row]:
    yield from wrapped(words.summarize_timeline(timeline(snapshot)), width, "strong")
    if said := words.describe_ending(snapshot.followed):
        limit = snapshot.followed is not None and snapshot.followed.limit is not None
        yield from wrapped(said, width, "warn" if limit else "muted", lead="! " if limit else "")
    yield from wrapped("times are until the call returned; a script has no eager form to compare with", width, "muted")
    end = duration(seconds)
    yield row((" 0 s" + " " * max(1, width - 5 - len(end)) + end, "dim"))


def _lane(lane: RegionLane, seconds: float, where: Places, toggled: frozenset[str], width: int) -> Iterator[Row]:
    at = lane.region.location
    links = (line_link(at),) if at else ()
    kind = "" if lane.region.kind == "function" else f"  {lane.region.kind}"
    yield row((f" {lane.region.name}", "title"), (f"{kind}  {where.describe(at)}", "muted"), links=links, location=at)
    if lane.seen is not None:
        yield row(" ", *strip(lane, seconds, max(8, width - 2)), links=links, location=at)
    yield from wrapped(" · ".join(words.region_figures(lane)), width, links=links, location=at)
    if lane.seen is not None and (ran := " · ".join(words.graph_figures(lane.seen))):
        yield from wrapped(ran, width, "warn" if lane.seen.uncompiled else "", links=links, location=at)
    yield from _marks(lane, where, toggled, width)
    if said := words.suggest_region_fix(lane):
        yield from wrapped(said, width, "ok", indent=3, lead="try ", links=links, location=at)
    yield BLANK


def _marks(lane: RegionLane, where: Places, toggled: frozenset[str], width: int) -> Iterator[Row]:
    name = f"region {lane.region.region}"
    opened = name in toggled
    told = lane.marks if opened else lane.marks[:FEW]
    for mark in told:
        yield from _mark(mark, where, width)
    if (rest := len(lane.marks) - FEW) > 0:
        yield fold(name, opened, ("fewer" if opened else f"and {rest} more", "muted"), indent=3)


def _mark(mark: CompileMark, where: Places, width: int) -> Iterator[Row]:
    again = mark.why[0].location if mark.why else None
    links = (line_link(again),) if again else ()
    lead = f"{GLYPHS[mark.what]} "
    yield row(("   " + lead, STYLES[mark.what]), words.describe_compile(mark), (f"  {where.describe(again)}", "muted"),
              links=links, location=again)  # fmt: skip
    for reason in words.recompile_reasons(mark):
        yield from wrapped(reason, width, "muted", indent=5, links=links, location=again)
