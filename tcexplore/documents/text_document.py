"""A document of a few rows that are there from the start."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.documents.document import Row, Span


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """Rows as given."""

    title: str
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Row:
        return self.rows[index]


def message(*lines: str, style: str = "muted") -> StaticDocument:
    """Lines of prose, for a pane that has nothing else to show."""
    return StaticDocument("", tuple(Row((Span(f" {line}", style),)) for line in lines))
