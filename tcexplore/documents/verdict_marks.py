"""The verdict of a timing as a mark next to its figure, readable without colors."""

from __future__ import annotations

from tcexplore.events import TimingEstimate
from tcexplore.session.run_summary import RunFigures

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

LEGEND = "▲ faster, ▼ slower, = no difference, ? undecided"


def format_speedup(timing: TimingEstimate) -> str:
    """Return `1.31× ▲`, or the mark alone if the figure is not significant."""
    mark = MARKS.get(timing.verdict, " ")
    return mark if mark == "?" else f"{timing.speedup:.2f}× {mark}"


def format_outcome(cell: RunFigures) -> str:
    """Return `faster, 1.31× [1.28, 1.34]`, or why there is no figure."""
    timing = cell.run.timing
    if cell.failure:
        return f"✖ {cell.failure}"
    if timing is None:
        return "done"
    interval = f"[{timing.low:.2f}, {timing.high:.2f}]"
    if timing.verdict == "measuring":
        return f"too few pairs for a verdict, {interval}"
    return (
        f"undecided, {interval}"
        if timing.verdict == "undecided"
        else f"{timing.verdict}, {timing.speedup:.2f}× {interval}"
    )
