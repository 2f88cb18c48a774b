"""Asking whether inputs would recompile: a line to type them in, and the view that gets the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_line import parted
from tcexplore.session import Snapshot
from tcexplore.session.links import Link
from tcexplore.session.region_query import QueryRegion, query_regions, select_region

if TYPE_CHECKING:
    from tcexplore.ui.app import ExplorerApp

TITLE = "Would it recompile?"
LABEL_SCRIPT = "The inputs of one call of {name}, as the last that it compiled for; change what you want to know about:"
LABEL = "The inputs of one call, as the file's own stand here; change what you want to know about:"
NOTE = (
    "f32[33, 512], mask=bool[64], 0.01, [f32[4], 2], f32[4, 6] strides[1, 4], f32[4] grad. "
    "Nothing is run: torch's own guards answer."
)
OVER = "The run has ended, and its compiled code with it: press r to run again, then ask."
SCRIPT = (
    "Nothing of this script can be asked yet: it has to compile something that takes inputs. An optimizer's step "
    "depends on its own state: its recompiles stand in the guards pane."
)
EARLY = "What the file compiles is not known yet: ask again in a moment."
WHICH = "The region of the script:"
EARLIER = "This is an earlier run, and its process has ended: press } for the newest one, then ask."


def ask(app: ExplorerApp, links: Sequence[Link] = ()) -> str:
    """Open the line for the inputs; of a script, for the region that these links stand for. Returns why nobody can
    answer, empty if the run can."""
    shown = app.session.shown
    if shown is None or app.engine is None:
        return "There is no run to ask yet."
    if shown is not app.session.newest:
        return EARLIER
    if shown.status != "running":
        return OVER
    if shown.entry is None:
        return EARLY
    script = shown.entry.kind == "script"
    region = select_region(shown, links) if script else None
    if script and region is None:
        return SCRIPT
    from tcexplore.ui.screens.prompt_screen import AskScreen, Field

    regions = {one.name: one for one in query_regions(shown)} if region else {}

    def asked(answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            of = region if len(answers) == 1 else regions[answers[0].strip()]
            _send(app, answers[-1], of.region.region if of else None)

    which = (Field(f"{WHICH} {', '.join(regions)}", region.name if region else "", _one_of(regions)),)
    label = LABEL_SCRIPT.format(name=region.name) if region else LABEL
    app.push_screen(
        AskScreen(
            TITLE, (*(which if len(regions) > 1 else ()), Field(label, first_inputs(shown, region), _check)), NOTE
        ),
        asked,
    )
    return ""


def first_inputs(snapshot: Snapshot, region: QueryRegion | None = None) -> str:
    """What stands in the line at first: the last question, else the inputs of the file's last call, or of the call
    that compiled the region last."""
    number = region.region.region if region else None
    last = next((answer for answer in reversed(snapshot.recompile_answers) if answer.region == number), None)
    if last is not None:
        return ", ".join(last.inputs)
    if region is not None:
        return ", ".join(region.inputs)
    calls = snapshot.entry.calls if snapshot.entry else ()
    return ", ".join(calls[-1]) if calls else ""


def _check(text: str) -> object:
    if not parted(text):
        raise ValueError("Type the inputs of one call, with commas between them.")
    return text


def _one_of(regions: dict[str, QueryRegion]) -> Callable[[str], object]:
    def check(text: str) -> object:
        if text.strip() not in regions:
            raise ValueError(f"There is no region {text.strip()!r} here: {', '.join(regions)}.")
        return text

    return check


def _send(app: ExplorerApp, text: str, region: int | None) -> None:
    pane = app.main.board.panes["guards"]
    view = pane.spec.view("would it?")
    app.main.board.current = pane.spec.id
    if view is not None:
        pane.show_view(view)
    if app.engine is None or not app.engine.send(RecompileQuery(inputs=tuple(parted(text)), region=region)):
        app.main.say(OVER, "warning")
    elif app.session.shown is not None and not app.session.shown.complete:
        waits = "once everything is compiled" if region is None else "behind the script's next call"
        app.main.say(f"Asked: the answer comes {waits}.")
