"""The verdict of a timing as a mark beside its figure: it has to be read without colours too."""

from __future__ import annotations

from tcexplore.events import TimingEstimate

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

LEGEND = "▲ faster, ▼ slower, = no difference, ? not to be told from the noise"


def marked(timing: TimingEstimate) -> str:
    """`1.31× ▲`."""
    return f"{timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}"
