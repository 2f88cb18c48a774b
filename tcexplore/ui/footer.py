"""The bottom line: the keys worth knowing, as many as there is room for."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tcexplore.documents.document import Row, Span
from tcexplore.ui.actions import Action, Scope, available
from tcexplore.ui.lines.row_line import Line


class _Entry(NamedTuple):
    keys: str
    word: str
    rank: int

    @property
    def cells(self) -> int:
        return len(self.keys) + len(self.word) + 3


_GROUPS = {
    "show_pane('source')": _Entry("1-7", "pane", 0),
    "step(-1)": _Entry("[ ]", "history", 8),
    "other_base(-1)": _Entry("[ ]", "other base", 2),
    "other_target(-1)": _Entry("[ ]", "other target", 2),
}
"""Entries that stand for several actions, in the place of the first of them."""

_OVER: dict[Scope, _Entry] = {
    "diff": _Entry("esc", "back to the panes", 0),
    "study": _Entry("esc", "back to the panes", 0),
    "why": _Entry("esc", "closes", 0),
    "target": _Entry("esc", "closes", 0),
    "twice": _Entry("esc", "back to the panes", 0),
}
"""The way out of what lies over the panes, in the first place."""


def footer(scopes: Collection[Scope]) -> Line:
    """The keys that fit, of the actions in these scopes: the most important ones, each in its usual place."""
    over = [entry for scope, entry in _OVER.items() if scope in scopes]
    entries = [*over, *(entry for entry in map(_entry, available(scopes)) if entry is not None)]
    return lambda width: _row(entries, width)


def _entry(action: Action) -> _Entry | None:
    alone = None if action.rank is None else _Entry(action.shown, action.label, action.rank)
    return _GROUPS.get(action.run, alone)


def _row(entries: list[_Entry], width: int) -> Row:
    room, kept = width - 1, set()
    for entry in sorted(entries, key=lambda entry: entry.rank):
        room -= entry.cells
        if room >= 0:
            kept.add(entry)
    shown = [entry for entry in entries if entry in kept]
    return Row((Span(" "), *(span for entry in shown for span in _spans(entry))))


def _spans(entry: _Entry) -> tuple[Span, Span]:
    return Span(entry.keys, "key"), Span(f" {entry.word}  ", "muted")
