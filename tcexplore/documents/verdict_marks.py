"""The verdict of a timing as a mark next to its figure, readable without colors."""

from __future__ import annotations

from tcexplore.documents.document import Span
from tcexplore.events import TimingEstimate
from tcexplore.events.timing_events import MemoryReturned
from tcexplore.session.economics import RunFigures

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

VERDICT_STYLES = {"faster": "faster", "slower": "slower", "no difference": "strong"}

LEGEND = "▲ faster, ▼ slower, = no difference, ? undecided"


def format_speedup(timing: TimingEstimate | MemoryReturned) -> str:
    """Return `1.31× ▲`; an undecided figure stands next to its interval."""
    return f"{timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}"


def speedup_span(timing: TimingEstimate | MemoryReturned) -> Span:
    """Return `format_speedup` in the style of its verdict."""
    return Span(format_speedup(timing), VERDICT_STYLES.get(timing.verdict, "muted"))


def format_interval(timing: TimingEstimate | MemoryReturned) -> str:
    """Return `1.46× [1.31, 1.60]`."""
    return f"{timing.speedup:.2f}× [{timing.low:.2f}, {timing.high:.2f}]"


def format_outcome(cell: RunFigures) -> str:
    """Return `faster, 1.31× [1.28, 1.34]`, or why there is no figure."""
    timing = cell.run.timing
    if cell.failure:
        return f"✖ {cell.failure}"
    if timing is None:
        return "done"
    figures = format_interval(timing)
    if timing.load:
        figures += f" {timing.load}"
    if timing.verdict == "measuring":
        return f"too few pairs for a verdict, {figures}"
    return f"{timing.verdict}, {figures}"
