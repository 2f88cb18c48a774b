"""The app: events of runs, history, actions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tcexplore.events import Config, Event, Failed, Job, Output, Phase, PhaseStarted
from tcexplore.session import Session
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.palette import CommandProvider
from tests import fakes
from tests.ui.app_under_test import AppUnderTest, FakeEngine, run_app


async def tell(ui: AppUnderTest, *news: Job | Event) -> None:
    """Deliver events to the app as the engine does, and wait until they are shown."""
    for one in news:
        ui.engine.deliver(one)
    await ui.until(lambda: ui.app._update_timer is None)
    await ui.settle()


def job(run: int, source: str = fakes.SOURCE) -> Job:
    return Job(run=run, file=fakes.FILE, source=source, config=Config())


async def test_events_of_a_run_are_shown():
    async with run_app() as ui:
        await tell(ui, job(1), PhaseStarted(run=1, phase="dynamo", at=0.1), fakes.complete(1).graphs[0])
        assert "class MLP" in ui.screen
        assert "layer_norm" in ui.screen
        assert "torch 2.13.0" in ui.screen


async def test_late_events_of_an_older_run_are_dropped():
    async with run_app() as ui:
        await tell(ui, job(1), job(2, "later = 1\n"), fakes.complete(1).graphs[0])
        assert ui.app.session.newest is not None
        assert ui.app.session.newest.graphs == ()


async def test_much_output_costs_few_updates():
    async with run_app() as ui:
        updates: list[Session] = []

        def note(session: Session) -> None:
            updates.append(session)

        ui.app.watch(ui.app, "session", note, init=False)
        await tell(ui, job(1))
        for number in range(100_000):
            ui.engine.deliver(Output(run=1, stream="stdout", text=f"line {number}\n"))
        assert len(ui.app._delivered) < 100
        await tell(ui)
        await ui.press("7", "end")
        assert "line 99999" in ui.row("output")
        assert len(updates) < 10


async def test_an_unreadable_file_is_reported_until_it_can_be_read():
    async with run_app(fakes.session(fakes.complete(1)), (100, 30)) as ui:
        problem = Failed(run=2, stage="file", blame="user", type="unreadable", message="mlp.py does not exist.")
        await tell(ui, job(2, ""), problem)
        await ui.press("7")
        assert "does not exist" in ui.screen
        await tell(ui, job(3))
        await ui.press("1")
        assert "class MLP" in ui.screen


async def test_history_steps_back_and_forth():
    async with run_app(fakes.session(fakes.complete(6), fakes.one_graph(7))) as ui:
        await ui.press("left_square_bracket")
        assert ui.app.session.pinned == 6
        assert "1 graph break" in ui.screen
        await ui.press("right_square_bracket")
        assert "0 graph breaks" in ui.screen
        await ui.press("left_square_bracket")
        await ui.act("newest-save")
        assert ui.app.session.pinned is None


async def test_documents_of_an_older_run_are_marked_and_dimmed():
    async with run_app(fakes.session(fakes.complete(7), fakes.running(8))) as ui:
        assert "old: run 7" not in ui.screen, "most runs have results after a moment"
        await ui.elapse(0.5)
        assert "old: run 7" in ui.screen
        assert ui.view("graph").faded
        assert not ui.view("source").faded
        await ui.show(fakes.session(fakes.complete(7), fakes.complete(8)))
        assert "old: run" not in ui.screen
        assert not ui.view("graph").faded


async def test_a_pane_stays_marked_as_old_until_it_shows_a_newer_run():
    async with run_app(fakes.session(fakes.complete(7), fakes.failed(8))) as ui:
        assert ui.view("graph").faded
        await tell(ui, job(9))
        assert ui.view("graph").faded


async def test_rerun_and_stop_reach_the_engine():
    async with run_app(fakes.sitting()) as ui:
        await ui.press("r", "x")
        assert ui.engine.requests == ["rerun", "stop"]
        assert "Run 9 is stopped" in ui.notifications[-1]


async def test_stopping_a_run_notifies_the_user():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("x")
        assert "Timing of run 7 has ended" in ui.notifications[-1]
        await ui.show(fakes.session(fakes.failed(4)))
        await ui.press("x")
        assert "Nothing is running" in ui.notifications[-1]
        assert ui.engine.requests == ["stop"]


async def test_a_superseded_run_is_marked():
    async with run_app() as ui:
        job = Job(run=1, file=fakes.FILE, source="")
        await tell(ui, job, PhaseStarted(run=1, phase="dynamo", at=0.1), replace(job, run=2))
        assert "1: ended early" in ui.screen
        await ui.press("left_square_bracket", "6")
        assert "ended early  by the next run" in ui.screen


async def test_the_theme_changes_and_changes_back():
    async with run_app(fakes.sitting()) as ui:
        dark = ui.view("source").render_lines(ui.view("source").size.region)[0]
        await ui.act("theme")
        light = ui.view("source").render_lines(ui.view("source").size.region)[0]
        assert ui.app.theme == "tcexplore-light"
        assert dark.text == light.text
        assert [s.style for s in dark] != [s.style for s in light]
        await ui.act("theme")
        assert ui.app.theme == "tcexplore-dark"


def test_no_color_is_readable_with_16_colors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("textual.constants.COLOR_SYSTEM", "standard")
    app = ExplorerApp(FakeEngine)
    assert app.theme == "ansi-dark"
    drawn = [Segment("torch", Style(color="#c9ced6", bgcolor="#12151b"))]
    for one in app.get_line_filters():
        drawn = one.apply(drawn, Color(18, 21, 27))
    assert [(s.style.color.name, s.style.bgcolor.name) for s in drawn] == [("default", "default")]


async def test_an_exception_in_a_document_is_shown_in_its_pane(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tcexplore.documents.graph.graph_view.graph_document", fail)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        assert "This pane cannot be shown" in ui.screen
        assert "class MLP" in ui.screen


async def test_the_command_palette_has_the_actions_of_the_screen():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        titles = [command.title for command in CommandProvider(ui.app.screen).commands()]
        assert "Go to the next graph break" in titles
        assert "Quit the application as soon as possible" not in titles
        await ui.press("ctrl+p", *"zoom", "enter")
        await ui.press("escape")
        assert ui.app.screen is ui.app.main


async def test_q_quits():
    async with run_app(fakes.sitting()) as ui:
        await ui.pilot.press("q")
        assert ui.app.return_code == 0


@pytest.mark.parametrize("opening", ["d", "S", "T", "?"])
async def test_q_leaves_a_screen_over_the_panes_then_the_app(opening: str):
    async with run_app(fakes.session(fakes.complete(7), fakes.complete(8))) as ui:
        await ui.press(opening)
        assert ui.app.screen is not ui.app.main
        await ui.press("q")
        assert ui.app.screen is ui.app.main
        await ui.pilot.press("q")
        assert ui.app.return_code == 0


async def test_ctrl_c_names_the_key_to_quit():
    async with run_app(fakes.session(fakes.complete(1))) as ui:
        await ui.press("ctrl+c")
        assert "q leaves" in ui.notifications[-1]
        assert ui.app.is_running


async def test_a_graph_is_shown_without_waiting_for_other_events(monkeypatch: pytest.MonkeyPatch):
    graph = fakes.complete(1).graphs[0]
    async with run_app() as ui:
        await tell(ui, job(1))
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as at_once:
            at_once.setattr(loop, "time", partial(float, loop.time()))
            ui.engine.deliver(PhaseStarted(run=1, phase="dynamo", at=0.1))
            assert ui.app._update_timer is not None
            waits = ui.app._update_timer.when()
            ui.engine.deliver(graph)
            assert ui.app._update_timer.when() < waits
        await tell(ui)
        assert ui.app.session.newest is not None
        assert len(ui.app.session.newest.graphs) == 1


async def test_only_changed_lines_are_painted_again():
    async with run_app(fakes.session(fakes.complete(7)), (200, 60)) as ui:
        graph = ui.view("graph")
        lines = graph.render_lines(graph.size.region)
        going = replace(fakes.recompiled(9), status="running", phase="inductor")  # at its end, panes may be resized
        await ui.show(fakes.session(fakes.complete(7), going))
        again = graph.render_lines(graph.size.region)
        same = sum(a is b for a, b in zip(lines, again, strict=True))
        assert 0 < same < len(lines)
        await ui.press("2")
        again = graph.render_lines(graph.size.region)
        await ui.press("j")
        moved = graph.render_lines(graph.size.region)
        assert sum(a is not b for a, b in zip(again, moved, strict=True)) <= 3, (
            "the old and the new row, and a highlighted one"
        )


async def test_the_failing_line_is_marked_and_panes_without_a_result_do_not_repeat_the_error():
    async with run_app(fakes.session(fakes.failed(4))) as ui:
        marked = [line for line in ui.screen.splitlines() if "▶" in line]
        assert len(marked) == 1
        assert "22" in marked[0]
        assert "h = self.fc1(x)  ▶ RuntimeError" in marked[0]
        shown = ui.screen.split("history")[0].split("\n", 2)[2]
        assert shown.count("no result  the run failed") >= 3


async def test_a_long_run_shows_its_phases_with_the_time_of_the_last_run():
    async with run_app() as ui:
        phases: tuple[tuple[Phase, float], ...] = (
            ("importing", 0.0), ("dynamo", 0.2), ("inductor", 1.2), ("timing", 6.2),
        )  # fmt: skip
        await tell(ui, job(1), *(PhaseStarted(run=1, phase=phase, at=at) for phase, at in phases))
        await tell(ui, job(2))
        await ui.elapse(0.5)
        assert "0.5" not in ui.screen.splitlines()[0], "a short run shows no time"
        await tell(ui, *(PhaseStarted(run=2, phase=phase, at=at) for phase, at in phases[:3]))
        await ui.elapse(4.1)
        assert "importing the file 0.2  Dynamo 1.0  ◐ Inductor 4.1 of ~5.0 s" in ui.screen.splitlines()[0]


async def test_the_clock_stops_while_only_timing_continues():
    async with run_app(fakes.session(fakes.running(8))) as ui:
        assert ui.app._clock._active.is_set()
        await ui.show(fakes.session(fakes.complete(9)))
        assert not ui.app._clock._active.is_set()
