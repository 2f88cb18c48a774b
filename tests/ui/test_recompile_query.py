"""Recompile checks, and comparing two cache entries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Input

from tcexplore import events as ev
from tcexplore.events.run_events import Phase
from tcexplore.ui.screens.prompt_screen import RecompileCheckScreen
from tests import fakes
from tests.snapshots import recompiling
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app

FILE = "/home/me/script.py"


def alive(*, answered: bool = False):
    run = recompiling.run()
    return fakes.session(
        replace(run, status="running", phase="timing", recompile_answers=run.recompile_answers if answered else ())
    )


async def test_the_form_suggests_the_inputs_of_the_file_and_opens_the_check_view():
    async with run_app(alive()) as ui:
        await ui.press("R")
        line = ui.app.screen.query_one(Input)
        assert line.value == "f32[6, 8], f32[6, 8], 0.1"
        line.value = " , "
        await ui.press("enter")
        assert "Type the inputs" in str(ui.app.screen.query_one("#note").render())
        line.value = "f32[33, 8], [f32[2], 3], lr=0.5"
        await ui.press("enter")
        assert ui.engine.requests[-1] == "ask f32[33, 8], [f32[2], 3], lr=0.5"
        assert ui.app.main.grid.current == "guards"
        assert "[check]" in str(ui.pane("guards").border_title)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_answers_are_shown_in_the_check_view(size: tuple[int, int]):
    async with run_app(alive(answered=True), size) as ui:
        await ui.press("4", "V", "z")
        check_screen(f"recompile_check_{size[0]}x{size[1]}", ui)


async def test_a_query_that_is_not_answered_yet_is_in_the_check_view():
    async with run_app(alive(), (160, 50)) as ui:
        await ui.press("R", "3", "3", "enter")
        await ui.settle()
        assert "? (f32[33, 8], f32[6, 8], 0.1)" in ui.screen
        assert "◐ Waiting for the answer." in ui.screen
        newest = ui.app.session.newest
        assert newest is not None
        assert newest.recompile_asked is not None
        number, inputs = newest.recompile_asked
        answer = replace(recompiling.run().recompile_answers[0], number=number, run=newest.run, asked=inputs)
        typed = replace(answer, asked=("f32[3, 8]", *inputs[1:]))
        await ui.show(ui.app.session.apply(typed))
        assert "◐ Waiting for the answer." in ui.screen, "an answer to what was typed before"
        await ui.show(ui.app.session.apply(answer))
        assert "Waiting for the answer" not in ui.screen
        newest = ui.app.session.newest
        assert newest is not None
        assert newest.recompile_asked is None


async def test_typing_replaces_the_first_size():
    async with run_app(alive()) as ui:
        await ui.press("R", "3", "3", "enter")
        assert ui.engine.requests[-1] == "ask f32[33, 8], f32[6, 8], 0.1"


async def test_the_form_answers_while_the_user_types():
    async with run_app(alive()) as ui:
        await ui.press("R", "3", "3")
        assert ui.engine.requests == ["ask f32[3, 8], f32[6, 8], 0.1", "ask f32[33, 8], f32[6, 8], 0.1"]
        assert "◐ waiting for the run's answer" in ui.screen
        answer = recompiling.run().recompile_answers[0]
        first, second = (replace(answer, number=one.number, inputs=one.inputs, asked=one.inputs)
                         for one in ui.engine.queries)  # fmt: skip
        await ui.show(ui.app.session.apply(first))
        assert "↻ would recompile" in ui.screen
        assert "◐ waiting for the run's answer; above is the one to the inputs before" in ui.screen
        await ui.show(ui.app.session.apply(second))
        assert isinstance(ui.app.screen, RecompileCheckScreen)
        assert "↻ would recompile" in ui.screen
        assert [each.inputs[0] for each in ui.app.session.runs[-1].recompile_answers] == ["f32[33, 8]"]
        assert "waiting" not in ui.screen
        await ui.press("4")
        assert "◐ waiting for the run's answer; above is the one to the inputs before" in ui.screen
        ui.app.screen.query_one(Input).value = ""
        await ui.press("enter")
        assert "Type the inputs" in ui.screen
        await ui.press("escape", "R")
        assert len(ui.engine.requests) == 3, "nothing is asked before the user types"


async def test_the_form_of_a_run_that_still_compiles_answers_only_once():
    run = replace(recompiling.run(), status="running", phase="dynamo", recompile_answers=())
    async with run_app(fakes.session(run), (160, 50)) as ui:
        await ui.press("R", "3", "3")
        assert ui.engine.requests == []
        await ui.press("enter")
        assert ui.engine.requests == ["ask f32[33, 8], f32[6, 8], 0.1"]
        await ui.settle()
        assert "◐ The answer comes once everything" in ui.screen


async def test_the_marked_number_of_many_inputs_is_in_view():
    (run,) = alive().runs
    assert run.entry is not None
    entry = replace(run.entry, calls=(("i64[8, 16]", *["f32[8, 4, 16, 16]"] * 8),))
    async with run_app(fakes.session(replace(run, entry=entry))) as ui:
        await ui.press("R")
        await ui.settle()
        assert "i64[8, 16], f32[8, 4, 16, 16]" in ui.screen
        assert ui.app.screen.query_one(Input).selected_text == "8"


async def test_the_form_suggests_the_inputs_checked_last_without_invalid_ones():
    async with run_app(alive(answered=True)) as ui:
        await ui.press("R")
        line = ui.app.screen.query_one(Input)
        assert "initially those checked last" in " ".join(ui.screen.split())
        assert line.value == "f32[7, 8], 0.1"
        await ui.press("up")
        assert line.value == ", ".join(recompiling.run().recompile_answers[0].inputs)
        await ui.press("down", "down")
        assert line.value == "f32[7, 8], 0.1"


async def test_escape_leaves_no_check_behind():
    async with run_app(alive()) as ui:
        await ui.press("R", "q")
        (query,) = ui.engine.queries
        answer = recompiling.run().recompile_answers[0]
        invalid = replace(answer, inputs=("q",), problem="no dtype 'q'", frames=(), asked=query.inputs)
        ui.app.deliver(replace(invalid, run=ui.app.session.runs[-1].run, number=query.number))
        await ui.until(lambda: bool(ui.app.session.runs[-1].recompile_answers))
        await ui.settle()
        await ui.press("enter")
        assert isinstance(ui.app.screen, RecompileCheckScreen), "invalid inputs keep the form open"
        await ui.press("escape")
        ui.app.deliver(replace(invalid, run=ui.app.session.runs[-1].run, number=query.number))
        ui.app._update_session()
        assert ui.app.session.runs[-1].recompile_answers == ()
        await ui.press("R")
        assert ui.app.screen.query_one(Input).value == "f32[6, 8], f32[6, 8], 0.1"
        await ui.press("x")
        assert ui.engine.queries[-1].number != query.number


async def test_the_line_is_edited_as_in_a_shell():
    async with run_app(alive()) as ui:
        await ui.press("R", "ctrl+u")
        line = ui.app.screen.query_one(Input)
        assert line.value == ""
        await ui.press("ctrl+y")
        assert line.value == "f32[6, 8], f32[6, 8], 0.1"
        await ui.press("ctrl+w", "ctrl+w")
        kept = line.value
        assert "f32[6, 8], f32[6, 8]".startswith(kept.rstrip(" ,"))
        await ui.press("ctrl+a", "alt+f", "ctrl+k", "ctrl+y")
        assert line.value == kept


async def test_an_ended_run_cannot_be_checked():
    async with run_app(fakes.session(recompiling.run())) as ui:
        await ui.press("R")
        assert "has ended" in ui.notifications[-1]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_entries_view(size: tuple[int, int]):
    async with run_app(alive(), size) as ui:
        await ui.press("4", "v", "z")
        check_screen(f"entries_{size[0]}x{size[1]}", ui)


async def test_two_marked_entries_are_compared():
    async with run_app(alive(), (120, 40)) as ui:
        await ui.press("4", "v", "z", "home", "equals_sign")
        assert "Put the cursor on an entry" in ui.notifications[-1]
        row = next(i for i in range(len(ui.view("guards").document)) if "● 0/1" in _text(ui, i))
        ui.view("guards").move_to(row)
        await ui.press("equals_sign")
        assert "0/1 is marked" in ui.notifications[-1]
        await ui.press("down", "down", "equals_sign")
        check_screen("guard_diff_120x40", ui)
        await ui.press("escape")
        assert ui.app.screen is ui.app.main


def _text(ui: AppUnderTest, index: int) -> str:
    return ui.view("guards").document.row(index).text


def script(*, phase: Phase = "answering"):
    created = [
        ev.RegionCreated(region=0, name="Net", kind="module", location=ev.Location(FILE, 30)),
        ev.RegionCreated(region=1, name="scaled", kind="function", location=ev.Location(FILE, 12)),
        ev.RegionCreated(region=2, name="SGD.step", kind="optimizer"),
    ]
    compiled = [
        ev.RegionGraph(region=0, graph="0/0"),
        ev.RegionGraph(region=1, graph="1/0"),
        ev.RegionCompiled(region=0, call=1, at=0.1, seconds=1.0, graphs=("0/0",), inputs=("f32[3, 8]",)),
        ev.RegionCompiled(region=1, call=1, at=1.1, seconds=1.0, graphs=("1/0",), inputs=("f32[3]", "0.5")),
        ev.RegionCompiled(region=2, call=1, at=2.1, seconds=1.0, graphs=("2/0",)),
        ev.FrameEntered(graph="0/0", frame=ev.Location(FILE, 7, "forward")),
        ev.GuardsInstalled(graph="0/0", guards=()),
    ]
    run = replace(
        recompiling.run(),
        status="running",
        recompiles=(),
        frames=(),
        graphs=(),
        recompile_answers=(),
        guards=(),
        phase=phase,
    )
    run = replace(run, file=FILE, entry=ev.EntryFound(name="__main__", kind="script", rule="", calls=()))
    for event in (*created, *compiled):
        run = run.apply(replace(event, run=run.run))
    return run


async def test_a_script_is_checked_by_region():
    async with run_app(fakes.session(script())) as ui:
        await ui.press("4", "v", "R")
        which, line = ui.app.screen.query(Input)
        assert (which.value, line.value) == ("Net line 30", "f32[3, 8]")
        which.value = "Nett"
        await ui.press("enter")
        assert "no region 'Nett'. Regions: Net line 30, scaled line 12" in str(
            ui.app.screen.query_one("#note").render()
        )
        which.value, line.value = "scaled line 12", "f32[4], 0.5"
        await ui.press("enter", "enter")
        assert ui.engine.requests[-1] == "ask f32[4], 0.5 of region 1"


async def test_a_script_without_compiled_inputs_cannot_be_checked():
    bare = replace(script(), region_compiles=())
    async with run_app(fakes.session(bare)) as ui:
        await ui.press("R")
        assert "has to compile something that takes inputs" in ui.notifications[-1]
