"""What a run itself knows of the fix of a break: the first change that could remove it, and its verification."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.result_events import FixState
from tcexplore.fixes.fix import Change
from tcexplore.fixes.proposals import advice, installed, proposals
from tcexplore.session import Snapshot


class KnownFix(NamedTuple):
    """A change that could remove a break, or advice if none is known."""

    change: Change | None
    state: FixState = "none"
    note: str = ""
    """Why it is not verified; empty if it is, or was not tried."""
    advice: str = ""


def known_fix(snapshot: Snapshot, graph_break: ev.GraphBreak) -> KnownFix:
    """Return the fix of a break that was verified or tried last, else the first that could remove it."""
    at = graph_break.location
    if at is None:
        return KnownFix(None)
    text = "" if installed(at.file) else _text(snapshot, at.file)
    changes = proposals(at.file, text, at.line, graph_break.kind) if text else ()
    if not changes:
        return KnownFix(None, advice=advice(at.file, text, at.line, graph_break.kind))
    tried = snapshot.fix_of(graph_break)
    if tried is None or tried.state == "none":
        return KnownFix(changes[0], "proposed")
    change = next((change for change in changes if change.fix.name == tried.name), changes[0])
    return KnownFix(change, tried.state, tried.note)


def _text(snapshot: Snapshot, file: str) -> str:
    """Return the text of a file as the run read it; empty if the run did not read it."""
    if file == snapshot.file:
        return snapshot.source
    return next((source.text for source in snapshot.sources if source.file == file), "")
