"""Documents on a terminal or in a pipe. The only module of `report` that imports Rich."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TextIO

from rich.console import Console
from rich.style import Style
from rich.text import Text

from tcexplore.documents.document import Document, Row, Span
from tcexplore.documents.highlight import colored
from tcexplore.documents.style_names import ANSI, KERNELS
from tcexplore.events import clean

PIPE_WIDTH = 100
"""Columns of a report in a pipe or a file, unless COLUMNS has another number."""

CONTINUED = 4
"""Columns by which the further lines of a wrapped row are indented beyond its first line."""

FOLD_MARKS = ("▾ ", "▸ ")


def print_document(build: Callable[[int], Document], stream: TextIO | None = None, width: int | None = None) -> None:
    """Print the document that `build` makes for a number of columns, by default to stdout.

    Rows that are about keys are left out. No row is cut off. Colors are those of the terminal; there are none in a pipe
    or with NO_COLOR.
    """
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    if width is None and not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    for line in _lines(build(console.width), console):
        line.rstrip()
        console.print(line, soft_wrap=True)


def _lines(document: Document, console: Console) -> Iterator[Text]:
    """Yield the lines without those for keys; several blank rows in succession become one."""
    blank, first = False, True
    for row in (document.row(index) for index in range(len(document))):
        if row.keys_only:
            continue
        if not row.text.strip():
            blank = True
            continue
        if blank and not first:
            yield Text()
        blank, first = False, False
        yield from _wrapped(row, console)


def _wrapped(row: Row, console: Console) -> Iterator[Text]:
    text = Text.assemble(*((clean(span.text), _style(span.style)) for span in _spans(row)))
    if row.no_wrap or text.cell_len <= console.width:
        yield text
        return
    plain = text.plain
    indent = min(len(plain) - len(plain.lstrip()), console.width // 4)
    rest = text[len(plain) - len(plain.lstrip()) :]
    further = indent + (CONTINUED if console.width >= 10 * CONTINUED else 0)
    for number, line in enumerate(rest.wrap(console, console.width - further, tab_size=4)):
        yield Text.assemble(" " * (further if number else indent), line)


def _spans(row: Row) -> Iterator[Span]:
    """Yield the spans in the colors of their language, without the mark of a fold: nothing opens in a report."""
    for number, span in enumerate(row.spans):
        if row.fold is not None and number < 2 and span.text.endswith(FOLD_MARKS):
            yield Span(span.text[: -len(FOLD_MARKS[0])], span.style)
        else:
            yield from colored(span)


@lru_cache(maxsize=1024)
def _style(names: str) -> Style:
    return Style.combine([Style(), *(Style.parse(ANSI.get(_named(name), "")) for name in names.split())])


def _named(name: str) -> str:
    """Return the name of the style; kernel colors repeat."""
    family, _, number = name.partition(".")
    return f"{family}.{int(number) % KERNELS}" if family in ("kernel", "label") and number.isdecimal() else name
