"""Which cell of a matrix to take, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.session.cell import Cell, faster


@dataclass(frozen=True, slots=True)
class Choice:
    """`take` is the fastest cell, or that one of those level with it which compiles soonest; `level` are the others.

    Cells are level with the fastest where their intervals of the speed-up overlap. `varying` is the fastest one that
    keeps sizes open, where `take` has a program for each size; None where none of them is faster than eager.
    """

    take: Cell
    level: tuple[Cell, ...]
    varying: Cell | None


def choice(cells: Sequence[Cell]) -> Choice | None:
    """What to take of the cells that are faster than eager and give its result; None where none is."""
    good = sorted((cell for cell in cells if faster(cell)), key=lambda cell: -_speedup(cell))
    if not good:
        return None
    least = good[0].run.timing.low if good[0].run.timing else 0.0
    level = [cell for cell in good if cell.run.timing and cell.run.timing.high >= least]
    take = min(level, key=_compile_s)
    open_sizes = next((cell for cell in good if cell.run.config.dynamic), None)
    return Choice(
        take=take,
        level=tuple(cell for cell in level if cell is not take),
        varying=open_sizes if take.run.config.dynamic is False else None,
    )


def wrong(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells whose compiled program gives another result than eager."""
    return tuple(cell for cell in cells if cell.summary.wrong)


def _speedup(cell: Cell) -> float:
    return cell.run.timing.speedup if cell.run.timing else 0.0


def _compile_s(cell: Cell) -> float:
    return float("inf") if cell.compile_s is None else cell.compile_s
