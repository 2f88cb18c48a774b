"""The lines above and below what a screen shows, each a function from the width to a row."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.document import Row, Span
from tcexplore.documents.prose import fitted, piece
from tcexplore.keymap import Scope, hint
from tcexplore.session import Session
from tcexplore.session.links import Link
from tcexplore.ui.actions import Action, available
from tcexplore.ui.lines.row_line import Line

if TYPE_CHECKING:
    from tcexplore.session import Snapshot
    from tcexplore.studies.study import StudyState

NOTHING_SELECTED = " Put the cursor on a row: what it is linked to appears here."


def title_line(session: Session, standby: ev.Standby | None, run_s: float, phase_s: float) -> Line:
    """Return file, torch, device, configuration and the run under way, which began `run_s` seconds ago."""
    from tcexplore.documents.strip.title_line import Elapsed, title_row

    return lambda width: title_row(session, standby, Elapsed(run_s, phase_s), width)


def verdict_line(session: Session) -> Line:
    """Return the compiler's results in one line."""
    from tcexplore.documents.strip.verdict_line import verdict_row

    return lambda width: verdict_row(session, width)


def history_line(session: Session) -> Line:
    """Return one entry per save."""
    from tcexplore.documents.strip.history_strip import history_row

    return lambda width: history_row(session, width)


def clicked_run(session: Session, texts: Sequence[str]) -> int | None:
    """Return the run of a clicked entry of the history; `texts` are the spans of the line up to the clicked one."""
    from tcexplore.documents.strip.history_strip import run_of

    return next((run for text in reversed(texts) if (run := run_of(session, text)) is not None), None)


def peek_line(
    run: Snapshot | None, links: Sequence[Link], chain: frozenset[Link], shown: Snapshot | None = None
) -> Line:
    """Return what is linked to the selected row in a run, marked as old unless it is the one that is `shown`."""
    if run is None or not links:
        return lambda width: fitted([piece(NOTHING_SELECTED, "dim")], width)
    from tcexplore.documents.strip.peek_line import peek_row

    return lambda width: peek_row(run, links, chain, width, old=run is not shown)


def study_line(title: str, job: ev.Job, state: StudyState[Any, Any] | None, answer: str = "") -> Line:
    """Return the title line of a study, with its main result so far."""
    from tcexplore.studies.study_text import study_title

    return lambda width: study_title(title, job, state, answer, width)


def diff_line(before: Snapshot | None, after: Snapshot | None, base: int | None) -> Line:
    """Return which runs are compared."""
    if after is None:
        return lambda width: fitted([piece(" diff", "title"), piece("no run yet", "muted")], width)
    against = ""
    if before is not None:
        against = f"with the base, {before.label}" if before.run == base else f"with {before.label}"
    pieces = [piece(" diff", "title"), piece(f"{after.label} of {os.path.basename(after.file)}"), piece(against)]
    return lambda width: fitted(pieces, width)


# ---- footer


class _Entry(NamedTuple):
    keys: str
    label: str
    rank: int

    @property
    def cells(self) -> int:
        return len(self.keys) + len(self.label) + 3


class _Group(NamedTuple):
    """One entry for several actions, by the first and the last of them."""

    first: str
    last: str
    label: str
    rank: int
    separator: str = " "

    def entry(self) -> _Entry:
        return _Entry(f"{hint(self.first)}{self.separator}{hint(self.last)}", self.label, self.rank)


_GROUPS = {
    group.first: group
    for group in (
        _Group("source-pane", "output-pane", "pane", 3, "-"),
        _Group("earlier-save", "later-save", "history", 8),
        _Group("diff-earlier-base", "diff-later-base", "other base", 2),
        _Group("target-diff-previous-target", "target-diff-next-target", "other target", 2),
    )
}

LIVE_ONLY = frozenset({
    "fix", "run-again", "stop", "target", "target-diff", "recompile-check", "calls",
    "modes", "sweep", "recompiles", "bisect", "cold",
})  # fmt: skip
"""Actions that need a live program; the footers of traces leave them out."""

_WAY_OUT: dict[Scope, str] = {
    "diff": "back to the panes",
    "study": "back to the panes",
    "ranks": "back to the panes",
    "answer": "closes",
    "target": "closes",
    "target_diff": "back to the panes",
}
"""Labels of the first entries of screens over the panes."""


def footer(scopes: Collection[Scope], pane: str = "", *, trace: bool = False) -> Line:
    """Return the keys of the actions in these scopes, as many as fit: the way out, those of the pane, then the others
    in the order of the table of actions. `trace` if the runs are ranks of a trace."""
    way_out = [_Entry(hint("back"), label, 0) for scope, label in _WAY_OUT.items() if scope in scopes]
    shown = (action for action in available(scopes) if not trace or action.name not in LIVE_ONLY)
    actions = sorted(shown, key=lambda action: not _first(action, pane))
    entries = [*way_out, *(entry for entry in (_entry(action, pane) for action in actions) if entry is not None)]
    if trace and "main" in scopes:
        entries.insert(len(way_out) + 1, _Entry(hint("ranks"), "ranks", 2))
    return lambda width: _row(entries, width)


def _first(action: Action, pane: str) -> bool:
    of_study = action.scope not in ("view", "reading", "main", "app")
    return of_study or (action.name in _GROUPS and action.scope == "main") or pane in action.panes.split()


def _entry(action: Action, pane: str) -> _Entry | None:
    if action.name in _GROUPS:
        return _GROUPS[action.name].entry()
    panes, rank = action.panes.split(), action.rank
    if pane and action.name == "commands":
        rank = 1  # it leads to every action that a narrow footer has no room for
    if pane in panes:
        important = pane == panes[0] or rank is not None
        rank = 2 if important else 12
    return None if rank is None or not action.keys else _Entry(hint(action.name), action.label, rank)


def footer_action(scopes: Collection[Scope], text: str) -> Action | None:
    """Return the action of a key or a label in a footer."""
    name = text.strip()
    return next((action for action in available(scopes) if name in (hint(action.name), action.label)), None)


def _row(entries: list[_Entry], width: int) -> Row:
    room, fitting = width - 1, set()
    for entry in sorted(entries, key=lambda entry: entry.rank):
        room -= entry.cells
        if room >= 0:
            fitting.add(entry)
    shown = [entry for entry in entries if entry in fitting]
    return Row((Span(" "), *(span for entry in shown for span in _spans(entry))))


def _spans(entry: _Entry) -> tuple[Span, Span]:
    return Span(entry.keys, "key"), Span(f" {entry.label}  ", "muted")
