"""A roofline as text: on logarithmic axes what a device can do at each intensity, and where kernels stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOWEST, HIGHEST = 0.01, 10_000.0
"""FLOP per byte at the two ends of the axis."""


class Roof(NamedTuple):
    """Bytes/s from memory and FLOP/s of the units."""

    memory: float
    compute: float

    def at(self, intensity: float) -> float:
        """The most FLOP/s at so many FLOP per byte."""
        return min(self.memory * intensity, self.compute)


class Mark(NamedTuple):
    """A kernel: its intensity, and the sign that stands for it."""

    intensity: float
    sign: str
    style: str


Piece = tuple[str, str]
"""Text and its style."""


def draw(roof: Roof, marks: Sequence[Mark], width: int, height: int) -> Iterator[list[Piece]]:
    """`height` rows of `width` cells, the highest first: the roof as a line, each mark on it at its intensity.

    Nothing measured is drawn: a kernel stands at most where its mark is.
    """
    columns = [LOWEST * (HIGHEST / LOWEST) ** (x / (width - 1)) for x in range(width)]
    top, bottom = math.log(roof.compute), math.log(roof.at(LOWEST))
    heights = [round((math.log(roof.at(i)) - bottom) / (top - bottom) * (height - 1)) for i in columns]
    at = {(_column(mark.intensity, width), heights[_column(mark.intensity, width)]): mark for mark in marks}
    for y in reversed(range(height)):
        yield [_cell(at.get((x, y)), heights, x, y) for x in range(width)]


def _column(intensity: float, width: int) -> int:
    share = math.log(max(intensity, LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return min(round(share * (width - 1)), width - 1)


def _cell(mark: Mark | None, heights: Sequence[int], x: int, y: int) -> Piece:
    if mark is not None:
        return mark.sign, mark.style
    if heights[x] != y:
        return " ", ""
    return ("─" if heights[x] == heights[-1] else "╱"), "rule"
