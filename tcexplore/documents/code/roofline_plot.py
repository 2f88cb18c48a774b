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


class PlotMark(NamedTuple):
    """A kernel: its intensity, the sign that stands for it, and the FLOP/s that it was measured to reach, if it was."""

    intensity: float
    sign: str
    style: str
    reached: float | None = None


Piece = tuple[str, str]
"""Text and its style."""


def draw(roof: Roof, marks: Sequence[PlotMark], width: int, height: int) -> Iterator[list[Piece]]:
    """`height` rows of `width` cells, the highest first: the roof as a line, each mark at its intensity.

    A mark stands as high as its kernel reached; one that was not measured on the roof, as high as it can be.
    """
    columns = [LOWEST * (HIGHEST / LOWEST) ** (x / (width - 1)) for x in range(width)]
    top, bottom = math.log(roof.compute), math.log(roof.at(LOWEST))

    def level(rate: float) -> int:
        share = (math.log(max(rate, 1.0)) - bottom) / (top - bottom)
        return min(max(round(share * (height - 1)), 0), height - 1)

    heights = [level(roof.at(intensity)) for intensity in columns]
    at = {}
    for mark in marks:
        x = _column(mark.intensity, width)
        at[x, level(mark.reached) if mark.reached else heights[x]] = mark
    for y in reversed(range(height)):
        yield [_cell(at.get((x, y)), heights, x, y) for x in range(width)]


def _column(intensity: float, width: int) -> int:
    share = math.log(max(intensity, LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return min(round(share * (width - 1)), width - 1)


def _cell(mark: PlotMark | None, heights: Sequence[int], x: int, y: int) -> Piece:
    if mark is not None:
        return mark.sign, mark.style
    if heights[x] != y:
        return " ", ""
    return ("─" if heights[x] == heights[-1] else "╱"), "rule"
