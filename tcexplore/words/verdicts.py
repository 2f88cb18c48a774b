"""The verdict of a timing as a mark beside its figure: it has to be read without colours too."""

from __future__ import annotations

from tcexplore.events import TimingEstimate
from tcexplore.session.cell import Cell

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

LEGEND = "▲ faster, ▼ slower, = no difference, ? not to be told from the noise"


def marked(timing: TimingEstimate) -> str:
    """`1.31× ▲`."""
    return f"{timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}"


def outcome(cell: Cell) -> str:
    """`faster, 1.31× [1.28, 1.34]`, or why there is no such figure."""
    timing = cell.run.timing
    if cell.why:
        return f"✖ {cell.why}"
    if timing is None:
        return "done"
    return f"{timing.verdict}, {timing.speedup:.2f}× [{timing.low:.2f}, {timing.high:.2f}]"
