"""The compiled regions of a script, and what they compiled when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from tcexplore.documents import regions_text as words
from tcexplore.documents.paths import at
from tcexplore.report.text.layout import indented, labelled
from tcexplore.session import Snapshot
from tcexplore.session.timeline import RegionLane, timeline

MOST = 20
"""Compiles of one region that are printed; the JSON has all."""


def time_line(snapshot: Snapshot) -> Iterable[RenderableType]:
    """Nothing for a file that is no script."""
    found = timeline(snapshot)
    if not found.lanes:
        return
    yield indented(words.headline(found))
    if said := words.followed(snapshot.followed):
        yield indented(said, "yellow" if snapshot.followed and snapshot.followed.limit else "dim")
    for lane in found.lanes:
        yield from _lane(lane, snapshot.file)


def _lane(lane: RegionLane, file: str) -> Iterator[RenderableType]:
    made = lane.region
    yield indented(Text.assemble((made.name, "bold"), f"  {made.kind}  ", (at(made.location, file), "dim")))
    yield indented(" · ".join(words.calls(lane)), by=4)
    if lane.seen is not None and (ran := " · ".join(words.graphs(lane.seen))):
        yield indented(ran, "yellow" if lane.seen.uncompiled else "", by=4)
    for mark in lane.marks[:MOST]:
        yield indented(words.mark(mark), "yellow" if mark.again else "", by=4)
        for reason in words.reasons(mark):
            yield labelled("failed", reason, by=8)
    if said := words.hint(lane):
        yield labelled("try", said, "green")
    if len(lane.marks) > MOST:
        yield indented(f"and {len(lane.marks) - MOST} more", "dim", by=4)
