"""Asking whether inputs would recompile: a line to type them in, and the view that gets the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcexplore.events.inputs import parted
from tcexplore.session import Snapshot

if TYPE_CHECKING:
    from tcexplore.ui.app import ExplorerApp

TITLE = "Would it recompile?"
LABEL = "The inputs of one call, as the file's own stand here; change what you want to know about:"
NOTE = (
    "f32[33, 512], mask=bool[64], 0.01, [f32[4], 2], f32[4, 6] strides[1, 4], f32[4] grad. "
    "Nothing is run: torch's own guards answer."
)
OVER = "The run has ended, and its compiled code with it: press r to run again, then ask."
SCRIPT = (
    "A script calls what it compiled itself: there is no call to ask about. Its recompiles stand in the guards pane. "
    "To ask, name a module or function of the file: tcexplore FILE:NAME --input 'f32[64, 512]'."
)
EARLIER = "This is an earlier run, and its process has ended: press } for the newest one, then ask."


def ask(app: ExplorerApp) -> str:
    """Open the line for the inputs; returns why nobody can answer, empty if the run can."""
    shown = app.session.shown
    if shown is None or app.engine is None:
        return "There is no run to ask yet."
    if shown is not app.session.newest:
        return EARLIER
    if shown.entry is not None and shown.entry.kind == "script":
        return SCRIPT
    if shown.status != "running":
        return OVER
    from tcexplore.ui.screens.ask import AskScreen, Field

    def asked(answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            _send(app, answers[0])

    app.push_screen(AskScreen(TITLE, (Field(LABEL, first_inputs(shown), _check),), NOTE), asked)
    return ""


def first_inputs(snapshot: Snapshot) -> str:
    """What stands in the line at first: the last question, else the file's last call."""
    if snapshot.would:
        return ", ".join(snapshot.would[-1].inputs)
    calls = snapshot.entry.calls if snapshot.entry else ()
    return ", ".join(calls[-1]) if calls else ""


def _check(text: str) -> object:
    if not parted(text):
        raise ValueError("Type the inputs of one call, with commas between them.")
    return text


def _send(app: ExplorerApp, text: str) -> None:
    pane = app.main.board.panes["guards"]
    view = pane.spec.view("would it?")
    app.main.board.current = pane.spec.id
    if view is not None:
        pane.show_view(view)
    if app.engine is None or not app.engine.ask(tuple(parted(text))):
        app.main.say(OVER, "warning")
    elif app.session.shown is not None and not app.session.shown.complete:
        app.main.say("Asked: the answer comes once everything is compiled.")
