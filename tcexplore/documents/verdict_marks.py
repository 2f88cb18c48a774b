"""The verdict of a timing as a mark next to its figure, readable without colors."""

from __future__ import annotations

from tcexplore.events import TimingEstimate
from tcexplore.session.run_summary import RunFigures

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

LEGEND = "▲ faster, ▼ slower, = no difference, ? undecided"


def format_speedup(timing: TimingEstimate) -> str:
    """Return `1.31× ▲`; an undecided figure stands next to its interval."""
    return f"{timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}"


def format_outcome(cell: RunFigures) -> str:
    """Return `faster, 1.31× [1.28, 1.34]`, or why there is no figure."""
    timing = cell.run.timing
    if cell.failure:
        return f"✖ {cell.failure}"
    if timing is None:
        return "done"
    figures = f"{timing.speedup:.2f}× [{timing.low:.2f}, {timing.high:.2f}]"
    if timing.verdict == "measuring":
        return f"too few pairs for a verdict, {figures}"
    return f"{timing.verdict}, {figures}"
