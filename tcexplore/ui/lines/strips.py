"""Rows to rich's segments: styles looked up, tabs widened, matches of a search marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from rich.segment import Segment
from rich.style import Style

from tcexplore.documents.document import Row, Span
from tcexplore.ui.terminal.style_palette import Palette

_TAB = 4
_ENDS_LINE = str.maketrans({"\n": "␊", "\r": "␍"})


@dataclass(frozen=True)
class Query:
    """A text searched for; without a capital letter in it, the case does not matter."""

    text: str

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.text), re.IGNORECASE if self.text == self.text.lower() else 0)

    def hits(self, text: str) -> bool:
        """Whether the text has it."""
        return self._pattern.search(text) is not None

    def places(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each place in the text, in characters."""
        return [match.span() for match in self._pattern.finditer(text)]


def flat(text: str) -> str:
    """Text that takes one line and whose every character takes the cells that it says it takes."""
    return text.expandtabs(_TAB).translate(_ENDS_LINE) if not text.isprintable() else text


def segments(
    row: Row, palette: Palette, base: Style, query: Query | None = None, *, current: bool = False
) -> list[Segment]:
    """A row in full width, over a base style, matches of `query` marked; `current` marks them as the one in view."""
    spans: Iterable[Span] = (Span(flat(text), style) for span in row.spans for text, style in _drawn(span))
    if query is not None:
        spans = list(spans)
        places = query.places("".join(span.text for span in spans))
        spans = _marked(spans, places, "match.current" if current else "match") if places else spans
    return [Segment(text, base + palette.style(style)) for text, style in spans if text]


def _drawn(span: Span) -> tuple[Span, ...]:
    """The span; code in the colors of its language."""
    if not span.style.startswith("code."):
        return (span,)
    # Pygments takes 30 ms to import, which the first frame does not have.
    from tcexplore.documents.highlight import colored

    return colored(span)


def _marked(spans: Iterable[Span], places: list[tuple[int, int]], mark: str) -> Iterator[Span]:
    """The spans cut at the ends of the places, the pieces inside them in the style `mark` as well."""
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
