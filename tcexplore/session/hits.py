"""Walking along a selection: from one row that it lights to the next, through all panes, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tcexplore.session.links import Link

Rows = Mapping[Link, Sequence[int]]
"""Of one pane: the rows that stand for each link, ascending."""

DEEPEST = 200
"""Positions remembered; older ones are forgotten."""


class Position(NamedTuple):
    """A row of a pane, in one of its views; `links` are what was selected there."""

    pane: str
    row: int
    view: str = ""
    links: tuple[Link, ...] = ()


def rows_of(own: Iterable[Iterable[Link]]) -> dict[Link, list[int]]:
    """The rows by link; `own` has for each row of a pane the links that it stands for."""
    found: dict[Link, list[int]] = {}
    for index, links in enumerate(own):
        for link in dict.fromkeys(links):
            found.setdefault(link, []).append(index)
    return found


def hits(chain: Iterable[Link], panes: Mapping[str, Rows]) -> tuple[Position, ...]:
    """Every row that the chain lights, in the order of the panes and of their rows, each once."""
    lit = list(chain)
    return tuple(
        Position(pane, row)
        for pane, rows in panes.items()
        for row in sorted({row for link in lit for row in rows.get(link, ())})
    )


def following(found: Sequence[Position], order: Sequence[str], at: Position, by: int = 1) -> Position | None:
    """The next hit behind (`by` 1) or before (-1) a position, from the last one on to the first; None without any.

    `order` are the panes in the order of `found`; `at` need not be a hit itself.
    """
    if not found:
        return None
    place = {pane: index for index, pane in enumerate(order)}
    here = place.get(at.pane, -1), at.row
    keys = [(place[hit.pane], hit.row) for hit in found]
    if by > 0:
        return next((hit for hit, key in zip(found, keys, strict=True) if key > here), found[0])
    return next((hit for hit, key in zip(reversed(found), reversed(keys), strict=True) if key < here), found[-1])


@dataclass(frozen=True, slots=True)
class Trail:
    """Where the person has been: positions behind the one they are at, and those that they came back from."""

    behind: tuple[Position, ...] = field(default=())
    ahead: tuple[Position, ...] = field(default=())

    def leave(self, at: Position) -> Trail:
        """The person follows something away from here; what lay ahead is forgotten."""
        if self.behind and self.behind[-1] == at:
            return Trail(self.behind)
        return Trail((*self.behind, at)[-DEEPEST:])

    def back(self, at: Position) -> tuple[Trail, Position | None]:
        """Back to where the person was before; `at` is where they are now. None where there is nothing behind."""
        if not self.behind:
            return self, None
        return Trail(self.behind[:-1], (at, *self.ahead)), self.behind[-1]

    def forward(self, at: Position) -> tuple[Trail, Position | None]:
        """Forward again after going back."""
        if not self.ahead:
            return self, None
        return Trail((*self.behind, at), self.ahead[1:]), self.ahead[0]
