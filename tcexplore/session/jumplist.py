"""The way back through the rows that the user followed a selection to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tcexplore.session.links import Link

DEEPEST = 200
"""Positions remembered; older ones are forgotten."""


class Position(NamedTuple):
    """A row of a pane, in one of its views; `links` are what was selected there."""

    pane: str
    row: int
    view: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class JumpList:
    """Where the user has been: positions behind the one they are at, and those that they came back from."""

    behind: tuple[Position, ...] = field(default=())
    ahead: tuple[Position, ...] = field(default=())

    def leave(self, at: Position) -> JumpList:
        """The user follows something away from here; what lay ahead is forgotten."""
        if self.behind and self.behind[-1] == at:
            return JumpList(self.behind)
        return JumpList((*self.behind, at)[-DEEPEST:])

    def back(self, at: Position) -> tuple[JumpList, Position | None]:
        """Back to where the user was before; `at` is where they are now. None where there is nothing behind."""
        if not self.behind:
            return self, None
        return JumpList(self.behind[:-1], (at, *self.ahead)), self.behind[-1]

    def forward(self, at: Position) -> tuple[JumpList, Position | None]:
        """Forward again after going back."""
        if not self.ahead:
            return self, None
        return JumpList((*self.behind, at), self.ahead[1:]), self.ahead[0]
