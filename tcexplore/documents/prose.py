"""Rows of text: wrapped, indented, headings, folds, tables, and rows that drop pieces to fit a width."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from rich.cells import cell_len, chop_cells

from tcexplore.documents.document import Row, Span
from tcexplore.session.links import Link

NARROWEST = 24
"""Minimum width of wrapped text; a narrower pane scrolls horizontally."""

BLANK = Row(())


def row(*spans: tuple[str, str] | str, rest: Sequence[tuple[str, str]] = (), **more: Any) -> Row:
    """Return a row of spans, each a text or a text with its style, without empty ones.

    Spans of the `rest` give way first where the row is too wide.
    """
    pairs = (span if isinstance(span, tuple) else (span, "") for span in spans)
    first = tuple(Span(*pair) for pair in pairs if pair[0])
    return Row((*first, *(Span(*pair) for pair in rest if pair[0])), kept=len(first) if rest else None, **more)


SEPARATORS = "._/,"
"""Characters after which a word that is too long for a row may be cut."""


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
    pieces = textwrap.wrap(
        line, room, break_on_hyphens=False, break_long_words=False, replace_whitespace=False, expand_tabs=False
    )
    return [part for piece in pieces or [""] for part in _chopped(piece, room)]


def _chopped(piece: str, room: int) -> Iterator[str]:
    """Yield the parts of a text that is wider than `room`, cut after a separator where a name has one."""
    while cell_len(piece) > room:
        start = chop_cells(piece, room)[0]
        cut = max(start.rfind(separator) for separator in SEPARATORS) + 1
        end = cut if 2 * cut > len(start) else len(start)
        yield piece[:end]
        piece = piece[end:]
    yield piece


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


def squeezed(text: str, room: int) -> str:
    """Return the text with `…` in the middle if it is wider than `room` columns: names differ at their ends."""
    if cell_len(text) <= room or room < 3:
        return shortened(text, room)
    end = chop_cells(text[::-1], (room - 1) // 2)[0][::-1]
    return f"{chop_cells(text, room - 1 - cell_len(end))[0]}…{end}"


Spans = tuple[Span, ...]

GAP = "  "


def columns(
    head: Sequence[str],
    rows: Sequence[Sequence[Spans]],
    links: Sequence[tuple[Link, ...]],
    left: Collection[int] = (0,),
) -> Iterator[Row]:
    """Yield the head and the rows with their `links`; the columns in `left` are left-aligned, the others right."""
    titles: list[Spans] = [(Span(title, "muted"),) for title in head]
    lines = [titles, *(list(row) for row in rows)]
    widths = [max(_width(line[index]) for line in lines) for index in range(len(head))]
    for line, own in zip(lines, ((), *links), strict=True):
        spans: list[Span] = [Span(" ")]
        for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
            padding = (Span(" " * (width - _width(cell))),) if width > _width(cell) else ()
            spans += [*cell, *padding] if index in left else [*padding, *cell]
            spans.append(Span(GAP))
        yield Row(tuple(spans[:-1]), own, no_wrap=True)


Item = TypeVar("Item")

SQUEEZED = 20
"""Least width of a column whose texts are cut."""

FAILED = Span("✖ failed", "error")
"""Stands in a table instead of the figures of a run that failed."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """A column of a table, and a key of the JSON, about an item of each row."""

    head: str | None
    """None for a value that only the JSON has."""
    value: Callable[[Item], Any]
    """Returns the value; None leaves the cell empty, and spans are shown as they are."""
    text: Callable[[Any], str] = str
    style: str | Callable[[Item], str] = ""
    key: str = ""
    """Its key in the JSON; empty for a value that only the table has."""
    left: bool = False
    """Whether it is left-aligned."""
    always: bool = False
    """Whether it is also shown in a row without figures."""
    squeezable: bool = False
    """Whether its texts are cut in the middle if the table is too wide, down to `SQUEEZED` columns."""
    drop: int = 0
    """Rank among the columns that a table leaves out if it is still too wide, the highest first; 0 for never."""

    def cell(self, item: Item) -> Spans:
        """Return the cell of an item."""
        value = self.value(item)
        if value is None or isinstance(value, Span):
            return () if value is None else (value,)
        style = self.style if isinstance(self.style, str) else self.style(item)
        return value if type(value) is tuple else (Span(self.text(value), style),)


def table(
    all_columns: Sequence[Column[Item]],
    items: Iterable[Item],
    links: Sequence[tuple[Link, ...]] = (),
    instead: Callable[[Item], Span | None] = lambda _: None,
    width: int | None = None,
) -> Iterator[Row]:
    """Yield a head and a row for each item, in `width` columns if that is given and the columns allow it.

    A row for which `instead` returns a span has this instead of its figures: the columns that are not shown `always`.
    A column whose cells are all empty is left out; without items there is no head.
    """
    shown = [column for column in all_columns if column.head is not None]
    rows: list[list[Spans]] = []
    for item in items:
        replaced = instead(item)
        figures = iter(((replaced,),) if replaced else ())
        rows.append([
            next(figures, ()) if replaced and not column.always else column.cell(item) for column in shown
        ])  # fmt: skip
    if not rows:
        return iter(())
    kept = [index for index in range(len(shown)) if any(span.text for row in rows for span in row[index])]
    if width is not None:
        kept = _fitting(shown, rows, kept, width)
    left = [place for place, index in enumerate(kept) if shown[index].left]
    cells = [[row[index] for index in kept] for row in rows]
    return columns([shown[index].head or "" for index in kept], cells, links or [()] * len(rows), left)


def _fitting(shown: Sequence[Column[Item]], rows: list[list[Spans]], kept: list[int], width: int) -> list[int]:
    """Return the columns of `kept` that fit after cutting texts in `rows`; as many as there is room for."""

    def column_width(index: int) -> int:
        return max(cell_len(shown[index].head or ""), *(_width(row[index]) for row in rows))

    widths = {index: column_width(index) for index in kept}
    while True:
        excess = 1 + sum(widths[index] + len(GAP) for index in kept) - len(GAP) - width
        spare = {index: max(widths[index] - SQUEEZED, 0) for index in kept if shown[index].squeezable}
        rank = max((shown[index].drop for index in kept), default=0)
        if excess <= sum(spare.values()) or not rank:
            break
        kept = [index for index in kept if shown[index].drop != rank]
    for index in sorted(spare, key=lambda index: spare[index], reverse=True):
        cut = min(max(excess, 0), spare[index])
        excess -= cut
        for row in rows:
            room = widths[index] - cut
            row[index] = tuple(Span(squeezed(span.text, room), span.style) for span in row[index][:1]) + row[index][1:]
    return kept


def json_values(all_columns: Sequence[Column[Item]], item: Item) -> dict[str, Any]:
    """Return the values of an item that the JSON has, by key."""
    return {column.key: column.value(item) for column in all_columns if column.key}


def _width(cell: Spans) -> int:
    return sum(cell_len(span.text) for span in cell)


class Piece(NamedTuple):
    """Spans that are shown together or dropped; those with a higher `priority` are dropped earlier."""

    spans: tuple[Span, ...]
    priority: int = 0

    @property
    def width(self) -> int:
        return sum(cell_len(span.text) for span in self.spans)


def piece(text: str, style: str = "", priority: int = 0) -> Piece:
    """Return a piece of one span."""
    return Piece((Span(text, style),), priority)


def fits(pieces: Sequence[Piece], width: int, gap: str = "  ") -> bool:
    """Return whether all pieces fit side by side."""
    return _wide([item for item in pieces if item.width], gap) <= width


def fitted(left: Sequence[Piece], width: int, right: Sequence[Piece] = (), gap: str = "  ") -> Row:
    """Return the pieces side by side, `right` at the right edge, without those that do not fit.

    If not even the pieces of priority 0 fit, the end of the row is cut.
    """
    pieces = [item for item in (*left, *right) if item.width]
    priorities = sorted({item.priority for item in pieces if item.priority}, reverse=True)
    for priority in priorities:
        if _wide(pieces, gap) <= width:
            break
        pieces = _without(pieces, priority, width, gap)
    shown = {id(item) for item in pieces}
    first = _joined([item for item in left if id(item) in shown], gap)
    last = _joined([item for item in right if id(item) in shown], gap)
    room = width - sum(cell_len(span.text) for span in (*first, *last))
    return Row(_cut((*first, *((Span(" " * max(room, 1)), *last) if last else ())), width))


def _without(pieces: list[Piece], priority: int, width: int, gap: str) -> list[Piece]:
    """Return the pieces without as many of this priority as necessary, the last ones first."""
    remaining = list(pieces)
    for item in reversed(pieces):
        if item.priority == priority and _wide(remaining, gap) > width:
            remaining = [other for other in remaining if other is not item]
    return remaining


def _wide(pieces: Sequence[Piece], gap: str) -> int:
    return sum(item.width for item in pieces) + len(gap) * max(len(pieces) - 1, 0)


def _joined(pieces: Sequence[Piece], gap: str) -> tuple[Span, ...]:
    spans = [span for item in pieces for span in (Span(gap), *item.spans)]
    return tuple(spans[1:])


def _cut(spans: Sequence[Span], width: int) -> tuple[Span, ...]:
    cut: list[Span] = []
    for span in spans:
        text = shortened(span.text, width)
        width -= cell_len(text)
        cut += [Span(text, span.style)] if text else []
    return tuple(cut)
