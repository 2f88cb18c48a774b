"""Which mode to use, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.session.run_figures import RunFigures, is_faster

SPEEDUP_TOLERANCE = 1.05
"""Ratio of two speedups below which the faster one is not worth a longer compile."""

COMPILE_TIME_TOLERANCE = 1.25
"""Ratio to the shortest compile time up to which compile times count as equal. Of equal runs the first is used."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode to use.

    Runs are compared by the lower end of their intervals, so that a noisy measurement does not win by chance.
    """

    best: RunFigures
    """Of the runs that are certain to be as fast as the fastest, the first with a short compile."""
    equal: tuple[RunFigures, ...]
    """Other runs that may be as fast, within `SPEEDUP_TOLERANCE`."""
    dynamic: RunFigures | None
    """The fastest run with dynamic shapes, if `best` recompiles for each size; None if none is faster than eager."""

    @property
    def compiles_fastest(self) -> bool:
        """Whether no equal run has a shorter compile."""
        return all(_compile_s(self.best) <= _compile_s(cell) for cell in self.equal)


def choose_mode(cells: Sequence[RunFigures]) -> ModeChoice | None:
    """Choose among the runs that are faster than eager and have its result; return None if there are none."""
    good = sorted((cell for cell in cells if is_faster(cell)), key=lambda cell: -_interval(cell)[0])
    if not good:
        return None
    least = _interval(good[0])[0] / SPEEDUP_TOLERANCE
    certain = [cell for cell in cells if is_faster(cell) and _interval(cell)[0] >= least]
    longest = COMPILE_TIME_TOLERANCE * min(map(_compile_s, certain))
    best = next(cell for cell in certain if _compile_s(cell) <= longest)
    dynamic = next((cell for cell in good if cell.run.config.dynamic), None)
    return ModeChoice(
        best=best,
        equal=tuple(cell for cell in good if cell is not best and _interval(cell)[1] >= least),
        dynamic=dynamic if best.run.config.dynamic is False else None,
    )


def wrong_runs(cells: Sequence[RunFigures]) -> tuple[RunFigures, ...]:
    """Return the runs whose compiled result differs from eager's."""
    return tuple(cell for cell in cells if cell.summary.wrong)


def _interval(cell: RunFigures) -> tuple[float, float]:
    return (cell.run.timing.low, cell.run.timing.high) if cell.run.timing else (0.0, 0.0)


def _compile_s(cell: RunFigures) -> float:
    return float("inf") if cell.compile_s is None else cell.compile_s
