"""Painting of a row as a line on the screen: styled once in full width, then cropped to the part in view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip

from tcexplore.documents.document import Row, Span
from tcexplore.events import clean
from tcexplore.ui.row_search import Query
from tcexplore.ui.themes import Palette

HIGHLIGHTED, MARKED, MORE_LEFT, MORE_RIGHT, THUMB = "◀", "⚑", "‹", "›", "▐"
MARGIN = 2
"""Columns at the right edge: a sign (marked, highlighted or "the row continues"), and the scrollbar's thumb."""

ELLIPSIS = "…"
"""Ends a row whose less important rest has no room."""

QUIET = frozenset({"muted", "dim", "comment", "rule", "target"})
"""Styles of text that gives way first at the end of a row that is too wide."""

_LEAST_PART = 10
"""Cells from which a part of a span says something."""

_EDGE_STYLES = {HIGHLIGHTED: "key", MARKED: "key", MORE_RIGHT: "muted"}
_SELECTED = Style(reverse=True)
_UNDERLINED = Style(underline=True)
_CACHED_ROWS = 4096
_TAB = 4
_CONTROL = str.maketrans({"\n": "␊", "\r": "␍"})


def flat(text: str) -> str:
    """Return the text on one line, with every character as wide as the terminal draws it, and none that acts on it."""
    return clean(text.expandtabs(_TAB)).translate(_CONTROL) if not text.isprintable() else text


def kept_spans(row: Row) -> int:
    """Return how many spans of a row are important: the others give way first where the row is too wide."""
    if row.kept is not None:
        return row.kept
    kept = len(row.spans)
    while kept > 1 and (row.spans[kept - 1].style in QUIET or not row.spans[kept - 1].text.strip()):
        kept -= 1
    return kept


class Shown(NamedTuple):
    """What of a row is in view while the view is not scrolled sideways."""

    cells: int
    shortened: bool = False
    """Whether `…` follows the cells."""
    cut: bool = False
    """Whether an important part is cut."""


def shown_part(row: Row, room: int) -> Shown:
    """Return what of a row fits in `room` cells: the important spans, and the others as far as they fit.

    Of the first one that doesn't fit, the words that do are shown, if they say something.
    """
    texts = [flat(span.text) for span in row.spans]
    kept = kept_spans(row)
    shown = sum(map(cell_len, texts[:kept]))
    if shown > room:
        return Shown(room, cut=True)
    for text in texts[kept:]:
        if shown + cell_len(text) > room:
            words = chop_cells(text, room - shown - 1)[0] if room - shown > _LEAST_PART else ""
            words = words[: words.rindex(" ")] if " " in words.lstrip() else words
            part = cell_len(words.rstrip(" ,·("))
            return Shown(shown + part, shortened=True) if part >= _LEAST_PART else Shown(shown)
        shown += cell_len(text)
    return Shown(shown)


def thumb(top: int, height: int, rows: int) -> range:
    """Return the lines of the scrollbar's thumb in a view scrolled to row `top`; none if all rows are in view."""
    if rows <= height:
        return range(0)
    size = max(1, height * height // rows)
    first = round(top * (height - size) / (rows - height))
    return range(first, first + size)


def scrolled_to(place: tuple[int, int] | None, column: int, width: int) -> int:
    """Return the cells to scroll to the right, from `column`, so that a place in a row is in view."""
    if place is None or place[1] <= width:
        return 0
    in_view = column <= place[0] and place[1] <= column + width
    return column if in_view else max(0, min(place[0], place[1] - width * 2 // 3))


def segments(
    row: Row, palette: Palette, base: Style, query: Query | None = None, *, current: bool = False
) -> list[Segment]:
    """Style a row in full width, with matches of `query` marked; `current` marks them as those under the cursor."""
    spans: Iterable[Span] = (Span(flat(text), style) for span in row.spans for text, style in _colored(span))
    if query is not None:
        spans = list(spans)
        places = query.places("".join(span.text for span in spans))
        spans = _marked(spans, places, "match.current" if current else "match") if places else spans
    if base.dim:  # terminals do not dim backgrounds
        spans = [Span(text, style.replace("label.", "kernel.")) for text, style in spans]
    return [Segment(text, base + palette.style(style)) for text, style in spans if text]


def _colored(span: Span) -> tuple[Span, ...]:
    """Return the span, split by syntax if it is code."""
    if not span.style.startswith("code."):
        return (span,)
    # Importing Pygments takes 30 ms, too long before the first frame.
    from tcexplore.documents.highlight import colored

    return colored(span)


def _marked(spans: Iterable[Span], places: list[tuple[int, int]], mark: str) -> Iterator[Span]:
    """Cut the spans at the ends of the places, and add the style `mark` to the pieces inside."""
    cuts = [(cut, inside) for start, end in places for cut, inside in ((start, False), (end, True))]
    at = 0
    pending = iter([*cuts, (None, False)])
    cut, inside = next(pending)
    for text, style in spans:
        while cut is not None and cut - at < len(text):
            head, text = text[: cut - at], text[cut - at :]
            yield Span(head, f"{style} {mark}" if inside else style)
            at = cut
            cut, inside = next(pending)
        yield Span(text, f"{style} {mark}" if inside else style)
        at += len(text)


class _Styled(NamedTuple):
    """A row in full width."""

    segments: list[Segment]
    cells: int


def _restyled(styled: _Styled, start: int, end: int, added: Style) -> _Styled:
    """Return the row with a style added to these cells."""
    strip, end = Strip(styled.segments, styled.cells), min(end, styled.cells)
    start = min(start, end)
    selected = Strip(
        [Segment(text, (style or Style()) + added) for text, style, _ in strip.crop(start, end)], end - start
    )
    parts = (strip.crop(0, start), selected, strip.crop(end))
    return _Styled([segment for part in parts for segment in part], styled.cells)


class RowState(NamedTuple):
    """State that a row's line depends on, besides the row."""

    highlighted: bool
    marked: bool
    cursor: bool
    thumb: bool
    """Whether the scrollbar's thumb is at this line."""
    place: tuple[int, int] | None = None
    """`Row.place`: it is underlined, except during a search, which underlines its matches."""
    selected: tuple[int, int] | None = None
    """The cells from the left end of the row that are selected with the mouse, the last one excluded."""


class LineContent(NamedTuple):
    """Content of a line of a view. Two lines with equal content look the same."""

    spans: tuple[Span, ...] | None
    """None below the last row."""
    state: RowState
    kept: int | None = None
    """`Row.kept`."""


class PaintedLines:
    """The lines that a view painted last, from the top of the view.

    Most events change few lines of a document. Equal lines keep their strips, with what Textual has cached in them.
    """

    def __init__(self) -> None:
        self._frame: tuple[object, ...] = ()
        self._lines: dict[int, tuple[LineContent, Strip]] = {}

    def begin(self, *frame: object) -> None:
        """Forget all lines unless the view still has the same `frame`: painter, width, column and query."""
        if frame != self._frame:
            self._frame = frame
            self._lines.clear()

    def line(self, y: int, content: LineContent, paint: Callable[[], Strip]) -> Strip:
        """Return line `y`, painted only if its content is new."""
        painted = self._lines.get(y)
        if painted is None or painted[0] != content:
            painted = self._lines[y] = content, paint()
        return painted[1]

    def changed(self, contents: Iterable[LineContent]) -> list[range]:
        """Return the lines that differ from the painted ones, as ranges."""
        ranges: list[range] = []
        for y, content in enumerate(contents):
            painted = self._lines.get(y)
            if painted is not None and painted[0] == content:
                continue
            if ranges and ranges[-1].stop == y:
                ranges[-1] = range(ranges[-1].start, y + 1)
            else:
                ranges.append(range(y, y + 1))
        return ranges


class RowPainter:
    """Paints the lines of one view in one theme."""

    def __init__(self, palette: Palette, base: Style, background: Color, filters: tuple[LineFilter, ...]) -> None:
        self.base = base
        self._palette = palette
        self._background = background
        self._filters = filters
        self._rows: LRUCache[tuple[int, bool], _Styled] = LRUCache(_CACHED_ROWS)
        self._edges: dict[tuple[str, str, Style], Segment] = {}

    def clear(self) -> None:
        """Drop cached rows: the document or the query is another one."""
        self._rows.clear()

    def content(self, index: int, content: LineContent, query: Query | None, width: int, column: int) -> Strip:
        """Return the line of the row at `index`, or a line below the last row."""
        if content.spans is None:
            return self.blank(width, thumb=content.state.thumb)
        return self.line(index, Row(content.spans, kept=content.kept), content.state, query, width, column)

    def line(self, index: int, row: Row, state: RowState, query: Query | None, width: int, column: int) -> Strip:
        """Return the part of a row that is in view when scrolled `column` cells to the right, with its edge."""
        ground = self._ground(state)
        styled = self._styled(index, row, state, ground, query)
        room = width - MARGIN
        narrow = not column and query is None and styled.cells > room
        part = shown_part(row, room) if narrow else Shown(column + room, cut=styled.cells > column + room)
        more = MORE_RIGHT if part.cut else " "
        sign = MARKED if state.marked else HIGHLIGHTED if state.highlighted else more
        edge = self._edge(sign, ground, thumb=state.thumb)
        if state.place is not None and query is None:
            styled = _restyled(styled, *state.place, self._palette.style("break") + _UNDERLINED)
        if state.selected is not None:
            styled = _restyled(styled, *state.selected, _SELECTED)
        if not column and styled.cells <= room:
            padding = Segment(" " * (room - styled.cells), ground)
            return Strip([*styled.segments, padding, *edge], width)
        whole = Strip(styled.segments, styled.cells)
        if narrow:
            end = [self._part(ELLIPSIS, "muted", ground)] if part.shortened else []
            whole = Strip([*whole.crop(0, part.cells), *end], part.cells + len(end))
        shown = whole.crop_extend(column, column + room, ground)
        if column and styled.cells:
            shown = Strip.join([Strip([self._part(MORE_LEFT, "muted", ground)], 1), shown.crop(1, room)])
        return Strip([*shown, *edge], width)

    def blank(self, width: int, *, thumb: bool) -> Strip:
        """Return a line below the last row."""
        edge = self._edge(" ", self.base, thumb=thumb)
        return Strip([Segment(" " * (width - MARGIN), self.base), *edge], width)

    def _ground(self, state: RowState) -> Style:
        """Return the style under the row's own styles."""
        base = self.base + self._palette.style("highlighted") if state.highlighted else self.base
        return base + self._palette.style("cursor") if state.cursor else base

    def _styled(self, index: int, row: Row, state: RowState, ground: Style, query: Query | None) -> _Styled:
        """Style a row; cached unless it is under the cursor."""
        key = (index, state.highlighted)
        styled = None if state.cursor else self._rows.get(key)
        if styled is None:
            parts = self._filtered(segments(row, self._palette, ground, query, current=state.cursor))
            styled = _Styled(parts, sum(segment.cell_length for segment in parts))
            if not state.cursor:
                self._rows.set(key, styled)
        return styled

    def _filtered(self, parts: list[Segment]) -> list[Segment]:
        for line_filter in self._filters:
            parts = line_filter.apply(parts, self._background)
        return parts

    def _edge(self, sign: str, ground: Style, *, thumb: bool) -> tuple[Segment, Segment]:
        bar = self._part(THUMB, "rule", self.base) if thumb else self._part(" ", "", self.base)
        return self._part(sign, _EDGE_STYLES.get(sign, ""), ground), bar

    def _part(self, text: str, style: str, ground: Style) -> Segment:
        key = (text, style, ground)
        if key not in self._edges:
            self._edges[key] = self._filtered([Segment(text, ground + self._palette.style(style))])[0]
        return self._edges[key]
