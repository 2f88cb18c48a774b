"""Result of the gate of `tcexplore check`: exceeded limits, and the breaks that count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tcexplore import events as ev


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that a run exceeds."""

    option: str
    """The option without its dashes, such as `max-breaks`."""
    sentence: str

    def __str__(self) -> str:
        return f"{self.sentence} (--{self.option})"


@dataclass(frozen=True, slots=True)
class AllowedBreak:
    """A graph break that the allow-list allows."""

    graph_break: ev.GraphBreak
    reason: str
    expires: date | None = None


@dataclass(frozen=True, slots=True)
class GateResult:
    """Result of the limits of a run."""

    exceeded: tuple[ExceededLimit, ...] = ()
    options: tuple[str, ...] = ()
    """Limits that were checked, as options without dashes."""
    breaks: tuple[ev.GraphBreak, ...] = ()
    """Breaks that count: those of the chosen files that are not allowed."""
    allowed: tuple[AllowedBreak, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what was not compared."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(map(str, self.exceeded))
