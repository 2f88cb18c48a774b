"""Jump list: rows that the user jumped from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tcexplore.session.links import Link

LIMIT = 200
"""Positions in memory; older ones are dropped."""


class Position(NamedTuple):
    """A row of a view of a pane, with the links that it selects."""

    pane: str
    row: int
    view: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class JumpList:
    """Positions before and after the current one."""

    behind: tuple[Position, ...] = field(default=())
    ahead: tuple[Position, ...] = field(default=())

    def leave(self, at: Position) -> JumpList:
        """Return the list after a jump from a position; later positions are dropped."""
        if self.behind and self.behind[-1] == at:
            return JumpList(self.behind)
        return JumpList((*self.behind, at)[-LIMIT:])

    def back(self, at: Position) -> tuple[JumpList, Position | None]:
        """Return the list and position before `at`, the current one; None if there is none."""
        if not self.behind:
            return self, None
        return JumpList(self.behind[:-1], (at, *self.ahead)), self.behind[-1]

    def forward(self, at: Position) -> tuple[JumpList, Position | None]:
        """Return the list and position after `at`; None if there is none."""
        if not self.ahead:
            return self, None
        return JumpList((*self.behind, at), self.ahead[1:]), self.ahead[0]
