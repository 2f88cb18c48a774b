"""That eager did not take the same time in all runs of a study, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tcexplore.quantities import duration
from tcexplore.session.run_figures import RunFigures

SAME = 1.25
"""Times of the same calls, run eagerly, that differ by no more than this are alike."""


def uneven(cells: Iterable[RunFigures], of: str = "") -> str:
    """A warning where eager's times in these cells, which make the same calls, are not alike; `of` names the calls."""
    times = sorted(cell.run.timing.eager_us / 1e6 for cell in cells if cell.run.timing)
    if not times or times[-1] <= SAME * times[0]:
        return ""
    return (
        f"Eager took from {duration(times[0])} to {duration(times[-1])}{of}: the machine was not as busy in all runs. "
        "Compare the speed-ups, whose sides were run in turns, and not the times."
    )
