"""One region's time as a row of cells: how busy it was, and when it compiled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tcexplore.documents.document import Span
from tcexplore.session.timeline import BACKWARD, BACKWARD_AGAIN, COMPILE, RECOMPILE, RegionLane

GLYPHS = {COMPILE: "●", RECOMPILE: "↻", BACKWARD: "◁", BACKWARD_AGAIN: "◀"}
STYLES = {COMPILE: "strong", RECOMPILE: "recompile", BACKWARD: "label.1", BACKWARD_AGAIN: "recompile"}
"""How a mark is drawn; it goes on as a line for as long as it lasts."""

_GOES_ON = "━"
_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"


def strip(lane: RegionLane, seconds: float, cells: int) -> tuple[Span, ...]:
    """`cells` cells for `seconds`; bars count calls, as high as the region's busiest cell."""
    drawn = _bars(lane, seconds, cells)
    for mark in sorted(lane.marks, key=lambda mark: mark.again):
        first, last = (_cell(at, seconds, cells) for at in (mark.at, mark.at + mark.seconds))
        style = STYLES[mark.what]
        for cell in range(first, last + 1):
            drawn[cell] = (_GOES_ON, style)
        drawn[first] = (GLYPHS[mark.what], style)
    return tuple(_joined(drawn))


def _bars(lane: RegionLane, seconds: float, cells: int) -> list[tuple[str, str]]:
    counts = [0] * cells
    if lane.seen is not None:
        for index, calls in enumerate(lane.seen.activity):
            counts[_cell((index + 0.5) * lane.seen.bin_s, seconds, cells)] += calls
    most = max(counts, default=0)
    return [(_BARS[(calls * len(_BARS) - 1) // most], "kernel.0") if calls else (_NOTHING, "dim") for calls in counts]


def _cell(at: float, seconds: float, cells: int) -> int:
    return min(max(int(at / seconds * cells), 0), cells - 1) if seconds else 0


def _joined(drawn: list[tuple[str, str]]) -> Iterator[Span]:
    for style, group in groupby(drawn, key=lambda cell: cell[1]):
        yield Span("".join(glyph for glyph, _ in group), style)
