"""Which cache entry the user means, and two of them side by side."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tcexplore.session import Session
from tcexplore.ui.lines.line_view import LineView
from tcexplore.ui.lines.row_painter import MARKED
from tcexplore.ui.panes.pane import Pane

WHERE = "Put the cursor on a cache entry in the lineage view (v) of the guards pane."
HOW = "How do two cache entries differ? Mark one in the lineage view with m, go to another, press w."


def entry_under(view: LineView) -> str:
    """The compile id of the entry under the cursor, or of the nearest row above that has one; empty where none has."""
    for index in range(view.cursor, -1, -1) if len(view.document) else ():
        found = next((link for link in view.document.row(index).links if link.kind in ("entry", "guard")), None)
        if found is not None:
            return found.where
    return ""


def mark_entry(pane: Pane) -> str:
    """Mark the entry under the cursor, or take its mark away; returns what to tell the user."""
    found = entry_under(pane.view)
    if not found:
        return WHERE
    again = pane.note == f"{MARKED} {found}"
    pane.note = "" if again else f"{MARKED} {found}"
    return f"{found} is not marked any more." if again else f"{found} is marked: go to another entry and press w."


def compare_entries(app: App[Any], pane: Pane, session: Session) -> str:
    """Show how the guards of the marked entry and of this one differ; returns why that cannot be, empty if it can."""
    snapshot = session.view(pane.form.has)
    marked, other = pane.note.removeprefix(f"{MARKED} "), entry_under(pane.view)
    if snapshot is None or not pane.note or not other:
        return HOW
    if marked == other:
        return "This is the marked entry: go to another one and press w."
    from tcexplore.ui.screens.guard_diff_screen import EntriesScreen

    app.push_screen(EntriesScreen(snapshot, marked, other))
    return ""
