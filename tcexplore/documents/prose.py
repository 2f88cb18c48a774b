"""Rows of text: wrapped, indented, headings, folds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len, chop_cells

from tcexplore.documents.document import Row, Span

NARROWEST = 24
"""Minimum width of wrapped text; a narrower pane scrolls horizontally."""

BLANK = Row(())


def row(*spans: tuple[str, str] | str, **more: Any) -> Row:
    """Return a row of spans, each a text or a text with its style, without empty ones."""
    pairs = (span if isinstance(span, tuple) else (span, "") for span in spans)
    return Row(tuple(Span(*pair) for pair in pairs if pair[0]), **more)


def wrapped(text: str, width: int, style: str = "", indent: int = 1, lead: str = "", **more: Any) -> Iterator[Row]:
    """Yield the text, wrapped line by line; `lead` precedes the first row."""
    room = max(width - 2 - indent - cell_len(lead), NARROWEST)
    first = " " * indent + lead
    for line in text.splitlines() or [""]:
        for piece in _pieces(line, room):
            yield row((first, "muted"), (piece, style), **more)
            first = " " * cell_len(first)


def _pieces(line: str, room: int) -> Iterable[str]:
    """Return the line, wrapped between words, and inside a word only if it is too long."""
    if cell_len(line) <= room:
        return [line]
    pieces = textwrap.wrap(line, room, break_on_hyphens=False, replace_whitespace=False, expand_tabs=False) or [""]
    return [part for piece in pieces for part in chop_cells(piece, room)]


def heading(text: str, note: str = "", **more: Any) -> Row:
    """Return the first row of a section."""
    return row((f" {text}", "heading"), (f"  {note}" if note else "", "muted"), **more)


def fold(name: str, opened: bool, *spans: tuple[str, str] | str, indent: int = 1, **more: Any) -> Row:
    """Return a row that opens and closes the rows below it."""
    return row((" " * indent + ("▾ " if opened else "▸ "), "key"), *spans, fold=name, **more)


def shortened(text: str, room: int) -> str:
    """Return the text, cut with `…` if it is wider than `room` columns."""
    if cell_len(text) <= room:
        return text
    start = chop_cells(text, room - 1)[0] if room > 1 else ""
    return f"{start}…" if room > 0 else ""
