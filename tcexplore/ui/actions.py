"""The bindings and the footers of screens, from the table of actions in `keymap.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from textual.binding import Binding, BindingType

from tcexplore.documents.document import Row, Span
from tcexplore.keymap import ACTIONS, DEFAULTS, UNBOUND, Action, Scope, available, hint
from tcexplore.ui.row_line import Line


def bindings(scope: Scope) -> list[BindingType]:
    """Return the default key bindings of a class. Their ids are the actions' names, by which a keymap changes them."""
    return [
        Binding(DEFAULTS[action.name] or UNBOUND, action.run, action.help, show=False, id=action.name)
        for action in ACTIONS
        if action.scope == scope
    ]


class _Entry(NamedTuple):
    keys: str
    label: str
    priority: int

    @property
    def cells(self) -> int:
        return len(self.keys) + len(self.label) + 3


def footer(scopes: Collection[Scope], pane: str = "", *, trace: bool = False, without: Collection[str] = ()) -> Line:
    """Return the keys of the actions in these scopes, as many as fit: the way out, those of the pane, then the others
    in the order of the table of actions. `trace` if the runs are ranks of a trace; actions `without` effect are left
    out."""
    shown = [action for action in available(scopes) if not (trace and action.live) and action.name not in without]
    way_out = [_Entry(hint("back"), action.way_out, 0) for action in shown if action.way_out]
    actions = sorted(shown, key=lambda action: not _first(action, pane))
    entries = [*way_out, *(entry for entry in (_entry(action, pane) for action in actions) if entry is not None)]
    if trace and "main" in scopes:
        entries.insert(len(way_out) + 1, _Entry(hint("ranks"), "ranks", 2))
    return lambda width: _row(entries, width)


def _first(action: Action, pane: str) -> bool:
    of_study = action.scope not in ("view", "reading", "main", "app")
    return of_study or (action.pair is not None and action.scope == "main") or pane in action.panes.split()


def _entry(action: Action, pane: str) -> _Entry | None:
    if action.pair is not None:
        keys = f"{hint(action.name)}{action.pair.separator}{hint(action.pair.last)}"
        return _Entry(keys, action.pair.label, action.pair.priority)
    panes, priority = action.panes.split(), action.priority
    if pane and action.name == "commands":
        priority = 1  # it leads to every action that a narrow footer has no room for
    if pane in panes:
        priority = 2 if pane == panes[0] or priority is not None else 12
    return None if priority is None or not action.keys else _Entry(hint(action.name), action.label, priority)


def footer_action(scopes: Collection[Scope], text: str) -> Action | None:
    """Return the action of a key or a label in a footer."""
    name = text.strip()
    return next((action for action in available(scopes) if name in (hint(action.name), action.label)), None)


def _row(entries: list[_Entry], width: int) -> Row:
    room, fitting = width - 1, set()
    for entry in sorted(entries, key=lambda entry: entry.priority):
        room -= entry.cells
        if room >= 0:
            fitting.add(entry)
    shown = [entry for entry in entries if entry in fitting]
    return Row((Span(" "), *(span for entry in shown for span in _spans(entry))))


def _spans(entry: _Entry) -> tuple[Span, Span]:
    return Span(entry.keys, "key"), Span(f" {entry.label}  ", "muted")
