"""The bottom line: the keys worth knowing, as many as there is room for."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore.ui.actions import ACTIONS, Action
from tcexplore.ui.document import Row, Span


class _Entry(NamedTuple):
    keys: str
    word: str
    rank: int

    @property
    def cells(self) -> int:
        return len(self.keys) + len(self.word) + 3


_GROUPS = {"show_pane('source')": _Entry("1-7", "pane", 0), "step(-1)": _Entry("[ ]", "history", 6)}
"""Entries that stand for several actions, in the place of the first of them."""


def _entry(action: Action) -> _Entry | None:
    alone = None if action.rank is None else _Entry(action.shown, action.label, action.rank)
    return _GROUPS.get(action.run, alone)


_ENTRIES = [entry for entry in map(_entry, ACTIONS) if entry is not None]


def footer(width: int) -> Row:
    """The keys that fit into `width` cells: the most important ones, each in its usual place."""
    room, kept = width - 1, set()
    for entry in sorted(_ENTRIES, key=lambda entry: entry.rank):
        room -= entry.cells
        if room >= 0:
            kept.add(entry)
    shown = [entry for entry in _ENTRIES if entry in kept]
    return Row((Span(" "), *(span for entry in shown for span in _spans(entry))))


def _spans(entry: _Entry) -> tuple[Span, Span]:
    return Span(entry.keys, "key"), Span(f" {entry.word}  ", "muted")
