"""Healing the graph break that the user means: that of the row under the cursor, or of its source line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcexplore.session import Snapshot
from tcexplore.session.links import Link, break_link, line_link

if TYPE_CHECKING:
    from tcexplore.events import GraphBreak  # not before the first frame
    from tcexplore.ui.app import ExplorerApp


def break_of(snapshot: Snapshot, links: Sequence[Link]) -> GraphBreak | None:
    """The break that these links stand for: itself first, else one on the line; the only one there is in any case."""
    of = {break_link(found): found for found in snapshot.breaks}
    on = {line_link(found.location): found for found in reversed(snapshot.breaks) if found.location}
    only = snapshot.breaks[0] if len(snapshot.breaks) == 1 else None
    return next((known[link] for known in (of, on) for link in links if link in known), only)


def heal(app: ExplorerApp, links: Sequence[Link]) -> str:
    """Open the cure of the break that these links stand for, in the newest run. Returns why not, empty where it did."""
    run, engine = app.session.newest, app.engine
    if engine is None or engine.job is None or run is None or not run.complete:
        return "The run is not over yet: its graph breaks are not all known."
    if run.entry is not None and run.entry.kind == "script":
        return "This file compiles for itself: there is no eager form that a cure could be compared with."
    found = break_of(run, links)
    if found is None:
        return "Put the cursor on a graph break or on its line: b goes to the next one."
    from tcexplore.ui.screens.fix_screen import CureScreen

    app.push_screen(CureScreen(engine, engine.job, run, found, app.undo))
    return ""
