"""What a run itself knows of the fix of a break: the first change that could remove it, and its verification."""

from __future__ import annotations

from collections.abc import Iterator
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


def proposed_fixes(snapshot: Snapshot) -> Iterator[ev.BreakFix]:
    """Yield the fix, or the advice, of each break of which nothing is known so far."""
    for graph_break in snapshot.breaks:
        if snapshot.fix_of(graph_break) is None:
            known = known_fix(snapshot, graph_break)
            yield ev.BreakFix(
                run=snapshot.run, location=graph_break.location, kind=graph_break.kind, state=known.state,
                name=known.change.fix.name if known.change else "",
                code=known.change.code if known.change else "", note=known.advice,
            )  # fmt: skip


def with_proposed_fixes(snapshot: Snapshot) -> Snapshot:
    """Return a run with the fixes that are proposed for its breaks."""
    for fix in list(proposed_fixes(snapshot)):
        snapshot = snapshot.apply(fix)
    return snapshot


def _text(snapshot: Snapshot, file: str) -> str:
    """Return the text of a file as the run read it; empty if the run did not read it."""
    if file == snapshot.file:
        return snapshot.source
    return next((source.text for source in snapshot.sources if source.file == file), "")
