"""The diff of two texts as rows, one below the other or side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tcexplore.documents.document import Row, Span
from tcexplore.documents.prose import row, shortened
from tcexplore.session.run_diff import RunChange, common_prefix

SIDE_BY_SIDE = 150
"""Minimum width to show two texts side by side."""

AROUND = 3
"""Unchanged lines above and below a change."""


class Numbered(NamedTuple):
    """A change of a line with its numbers on both sides, from 1, or 0 if it is missing."""

    change: RunChange[str]
    before: int
    after: int


At = Callable[[Numbered], Row]
"""Function that returns the links and location of a line."""


def text_rows(
    changes: Iterable[RunChange[str]], width: int, at: At | None = None, *, uncut: bool = False
) -> Iterator[Row]:
    """Yield the changed lines with a few around them, and the number of lines between.

    `uncut`: a changed line that would be cut in its half is not shown side by side with the other text.
    """
    lines = _numbered(changes)
    number = len(str(len(lines)))
    room = _room_of_half(width, number)
    cuts = uncut and any(len(_nearer(line.change.item)) > room for line in lines if line.change.kind != "same")
    form = _side_by_side if width >= SIDE_BY_SIDE and not cuts else _one_below_the_other
    for piece in _pieces(lines):
        if isinstance(piece, int):
            yield row((f"   ┄┄ {piece:,} unchanged ".ljust(min(width - 2, 60), "┄"), "rule"))
        else:
            yield from form(piece, number, width, at)


def _numbered(changes: Iterable[RunChange[str]]) -> list[Numbered]:
    numbered, before, after = [], 0, 0
    for change in changes:
        before += change.before is not None
        after += change.after is not None
        numbered.append(Numbered(change, before * (change.before is not None), after * (change.after is not None)))
    return numbered


def _pieces(lines: Sequence[Numbered]) -> Iterator[list[Numbered] | int]:
    """Yield the lines to show in groups, and between them the numbers of hidden lines."""
    near: set[int] = set()
    for index, line in enumerate(lines):
        if line.change.kind != "same":
            near.update(range(max(index - AROUND, 0), min(index + AROUND + 1, len(lines))))
    shown: list[Numbered] = []
    hidden = 0
    for index, line in enumerate(lines):
        if index in near:
            if hidden:
                yield hidden
            hidden = 0
            shown.append(line)
        else:
            if shown:
                yield shown
            shown = []
            hidden += 1
    if shown or hidden:
        yield shown or hidden


def _one_below_the_other(piece: Sequence[Numbered], number: int, _: int, at: At | None) -> Iterator[Row]:
    for line in piece:
        mark, style = _MARKS[line.change.kind]
        text = line.change.item
        shown = line.after or line.before
        made = row((f" {shown:>{number}} ", "dim"), (f"{mark} ", style), (text, style), copy=text)
        yield _placed(made, line, at)


_MARKS = {"same": (" ", ""), "added": ("+", "added"), "removed": ("-", "removed"), "changed": ("~", "changed")}


def _side_by_side(piece: Sequence[Numbered], number: int, width: int, at: At | None) -> Iterator[Row]:
    half, room = (width - 3) // 2, _room_of_half(width, number)
    for left, right in _paired(piece):
        before, after = (left.change.before or "" if left else ""), (right.change.after or "" if right else "")
        before, after = _to_difference(_nearer(before), _nearer(after), room)
        spans = (*_half(left, left.before if left else 0, before, "removed", number, half), Span(" │ ", "rule"),
                 *_half(right, right.after if right else 0, after, "added", number, half))  # fmt: skip
        line = right or left
        if line is not None:
            yield _placed(Row(spans, copy=line.change.item), line, at)


def _room_of_half(width: int, number: int) -> int:
    """Return the columns for the text of a line that is shown side by side; `number` are those of line numbers."""
    return (width - 3) // 2 - number - 4


def _to_difference(before: str, after: str, room: int) -> tuple[str, str]:
    """Return both lines without the beginning that they share, if their difference would be cut off."""
    same = common_prefix(before, after)
    if max(len(before), len(after)) <= room or same < room // 2 or before == after:
        return before, after
    start = same - room // 4
    return f"…{before[start:]}", f"…{after[start:]}"


def _half(line: Numbered | None, shown: int, text: str, kind: str, number: int, room: int) -> tuple[Span, ...]:
    """Return one side of a row, exactly `room` columns wide."""
    if line is None:
        return (Span(" " * room),)
    changed = line.change.kind != "same"
    style = kind if changed else ""
    mark = _MARKS[kind][0] if changed else " "
    cut = shortened(text, room - number - 4)
    return (
        Span(f" {shown:>{number}} ", "dim"),
        Span(f"{mark} ", style),
        Span(cut, style),
        Span(" " * (room - number - 4 - len(cut))),
    )


def _nearer(text: str) -> str:
    """Return the line with half of its indentation if that is at least 16 columns."""
    indent = len(text) - len(text.lstrip(" "))
    return text if indent < 16 else text[indent // 2 :]


def _paired(piece: Sequence[Numbered]) -> Iterator[tuple[Numbered | None, Numbered | None]]:
    """Yield removed lines next to the added lines that replace them."""
    removed: list[Numbered] = []
    added: list[Numbered] = []

    def flush() -> Iterator[tuple[Numbered | None, Numbered | None]]:
        for index in range(max(len(removed), len(added))):
            yield (removed[index] if index < len(removed) else None, added[index] if index < len(added) else None)
        removed.clear()
        added.clear()

    for line in piece:
        if line.change.kind == "same":
            yield from flush()
            yield line, line
        elif line.change.after is None:
            if added:
                yield from flush()
            removed.append(line)
        else:
            added.append(line)
    yield from flush()


def _placed(made: Row, line: Numbered, at: At | None) -> Row:
    if at is None:
        return made
    place = at(line)
    return Row(made.spans, place.links, place.location, copy=made.copy)
