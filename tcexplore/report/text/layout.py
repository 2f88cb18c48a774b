"""The one shape that the report is made of: text that wraps beside what stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

NARROWEST = 20
"""Columns that the text gets beside its prefix; where there are fewer it stands below it."""

BELOW = 8
"""Columns that it is indented by then."""


class Beside:
    """A prefix, and text that wraps to the right of it; no line is cut, and none ends in spaces."""

    def __init__(self, prefix: Text, text: Text) -> None:
        self.prefix, self.text = prefix, text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first, indent = self.prefix, Text(" " * self.prefix.cell_len)
        if self.prefix.cell_len and options.max_width - self.prefix.cell_len < NARROWEST:
            yield from Beside(Text(), self.prefix).__rich_console__(console, options)
            first = indent = Text(" " * BELOW)
        for index, line in enumerate(self.text.wrap(console, options.max_width - indent.cell_len, tab_size=4)):
            line.rstrip()
            whole = Text.assemble(indent if index else first, line, no_wrap=True, overflow="ignore")
            whole.rstrip()
            yield whole


def indented(text: str | Text, style: str = "", by: int = 2) -> Beside:
    """Text that wraps under its own beginning."""
    return Beside(Text(" " * by), text if isinstance(text, Text) else Text(text, style))


def labelled(label: str, text: str, style: str = "", by: int = 4) -> Beside:
    """`label: text`, the text wrapping beside its label."""
    return Beside(Text.assemble(" " * by, (f"{label}: ", "dim")), Text(text, style))


def columns(rows: Iterable[Sequence[str | Text]], right: tuple[int, ...] = (), by: int = 2) -> Iterable[Beside]:
    """Rows under each other, each column as wide as it needs, the last one wrapping in what is left.

    `right` are the indices of columns that align at their right edge.
    """
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    for row in cells:
        prefix = Text(" " * by)
        for index, cell in enumerate(row[:-1]):
            padding = " " * (widths[index] - cell.cell_len)
            prefix.append_text(Text.assemble(*((padding, cell) if index in right else (cell, padding)), "  "))
        yield Beside(prefix, row[-1])
