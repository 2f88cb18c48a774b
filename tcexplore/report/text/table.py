"""A table of many short columns: in a pipe as wide as it needs, on a terminal in as many parts as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

GAP = "  "

Cells = Sequence[str | Text]


def print_table(console: Console, head: Sequence[str], rows: Sequence[Cells], left: int = 1) -> None:
    """Print rows under their head, the first `left` columns aligned left; columns that are empty are left out.

    Where the columns do not fit beside each other, the table goes on below with the first `left` columns again.
    """
    filled = [index for index in range(len(head)) if any(str(row[index]) for row in rows)]
    widths = {index: max(Text(head[index]).cell_len, *(_text(row[index]).cell_len for row in rows)) for index in filled}
    room = console.width if console.is_terminal else None
    parts = list(_parts(filled, widths, left, room))
    for number, part in enumerate(parts):
        lines = [[Text(cell, "dim") for cell in head], *([_text(cell) for cell in row] for row in rows)]
        printed = [Text(GAP).join(_padded(line[i], widths[i], i < left) for i in part) for line in lines]
        for line in printed:
            line.rstrip()
        console.print(*([Text()] if number else []), *printed, sep="\n", soft_wrap=True)


def _parts(filled: list[int], widths: dict[int, int], left: int, room: int | None) -> Iterator[list[int]]:
    first = [index for index in filled if index < left]
    part = list(first)
    for index in filled[len(first) :]:
        needed = sum(widths[i] for i in (*part, index)) + len(GAP) * len(part)
        if room is not None and needed > room and len(part) > len(first):
            yield part
            part = list(first)
        part.append(index)
    yield part


def _padded(cell: Text, width: int, left: bool) -> Text:
    space = " " * (width - cell.cell_len)
    return Text.assemble(cell, space) if left else Text.assemble(space, cell)


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
