"""Which cell of a matrix to take, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.session.run_figures import RunFigures, is_faster

ALIKE = 1.05
"""Speed-ups that differ by less are not worth a longer compile."""

SOON = 1.25
"""Of cells whose compile takes no longer than so many times the shortest, the first is taken: it is the plainest."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """What to take, and which `level` others may be as fast, as far as is known, within `ALIKE`.

    A cell counts for what its interval makes sure of, so that a noisy measurement does not win by chance; of those that
    are sure to be as fast as the best one, `take` is the first that compiles about as soon as any. `varying` is
    the fastest that keeps sizes open, where `take` has a program for each; None where no such one is faster than eager.
    """

    take: RunFigures
    level: tuple[RunFigures, ...]
    varying: RunFigures | None

    @property
    def soonest(self) -> bool:
        """Whether none of the others compiles sooner."""
        return all(_compile_s(self.take) <= _compile_s(cell) for cell in self.level)


def choice(cells: Sequence[RunFigures]) -> ModeChoice | None:
    """What to take of the cells that are faster than eager and give its result; None where none is."""
    good = sorted((cell for cell in cells if is_faster(cell)), key=lambda cell: -_interval(cell)[0])
    if not good:
        return None
    least = _interval(good[0])[0] / ALIKE
    sure = [cell for cell in cells if is_faster(cell) and _interval(cell)[0] >= least]
    longest = SOON * min(map(_compile_s, sure))
    take = next(cell for cell in sure if _compile_s(cell) <= longest)
    open_sizes = next((cell for cell in good if cell.run.config.dynamic), None)
    return ModeChoice(
        take=take,
        level=tuple(cell for cell in good if cell is not take and _interval(cell)[1] >= least),
        varying=open_sizes if take.run.config.dynamic is False else None,
    )


def wrong(cells: Sequence[RunFigures]) -> tuple[RunFigures, ...]:
    """The cells whose compiled program gives another result than eager."""
    return tuple(cell for cell in cells if cell.summary.wrong)


def _interval(cell: RunFigures) -> tuple[float, float]:
    return (cell.run.timing.low, cell.run.timing.high) if cell.run.timing else (0.0, 0.0)


def _compile_s(cell: RunFigures) -> float:
    return float("inf") if cell.compile_s is None else cell.compile_s
