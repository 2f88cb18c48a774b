"""The app: events of runs, history, actions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tcexplore.events import Config, Failed, Job, Output, PhaseStarted
from tcexplore.session import Session
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.event_batches import EventBatcher
from tests import fakes
from tests.ui.stage import FakeEngine, Stage, stage


def _batcher(staged: Stage) -> EventBatcher:
    batcher = staged.engine.deliver.__self__  # type: ignore[attr-defined]
    assert isinstance(batcher, EventBatcher)
    return batcher


async def tell(staged: Stage, *news: object) -> None:
    """Deliver events to the app as the engine does, and wait until they are shown."""
    for one in news:
        staged.engine.deliver(one)
    while _batcher(staged)._timer is not None:
        await staged.pilot.pause(0.03)
    await staged.settle()


def job(run: int, source: str = fakes.SOURCE) -> Job:
    return Job(run=run, file=fakes.FILE, source=source, config=Config())


async def test_events_of_a_run_are_shown():
    async with stage() as staged:
        await tell(staged, job(1), PhaseStarted(run=1, phase="dynamo", at=0.1), fakes.complete(1).graphs[0])
        assert "class MLP" in staged.screen
        assert "layer_norm" in staged.screen
        assert "torch 2.13.0" in staged.screen


async def test_late_events_of_an_older_run_are_dropped():
    async with stage() as staged:
        await tell(staged, job(1), job(2, "later = 1\n"), fakes.complete(1).graphs[0])
        assert staged.app.session.newest is not None
        assert staged.app.session.newest.graphs == ()


async def test_much_output_costs_few_updates():
    async with stage() as staged:
        updates: list[Session] = []

        def note(session: Session) -> None:
            updates.append(session)

        staged.app.watch(staged.app, "session", note, init=False)
        await tell(staged, job(1))
        for number in range(100_000):
            staged.engine.deliver(Output(run=1, stream="stdout", text=f"line {number}\n"))
        assert len(_batcher(staged)._items) < 100
        await tell(staged)
        await staged.press("7", "end")
        assert "line 99999" in staged.row("output")
        assert len(updates) < 10


async def test_an_unreadable_file_is_reported_until_it_can_be_read():
    async with stage(fakes.session(fakes.complete(1)), (100, 30)) as staged:
        problem = Failed(run=2, stage="file", blame="user", type="unreadable", message="mlp.py does not exist.")
        await tell(staged, job(2, ""), problem)
        await staged.press("7")
        assert "does not exist" in staged.screen
        await tell(staged, job(3))
        await staged.press("1")
        assert "class MLP" in staged.screen


async def test_history_steps_back_and_forth():
    async with stage(fakes.session(fakes.complete(6), fakes.one_graph(7))) as staged:
        await staged.press("left_square_bracket")
        assert staged.app.session.pinned == 6
        assert "1 graph break" in staged.screen
        await staged.press("right_square_bracket")
        assert "0 graph breaks" in staged.screen
        await staged.press("left_square_bracket", "right_curly_bracket")
        assert staged.app.session.pinned is None


async def test_documents_of_an_older_run_are_marked_and_dimmed():
    async with stage(fakes.session(fakes.complete(7), fakes.running(8))) as staged:
        assert "old: run 7" in staged.screen
        assert staged.view("graph").faded
        assert not staged.view("source").faded


async def test_rerun_and_stop_reach_the_engine():
    async with stage(fakes.sitting()) as staged:
        await staged.press("r", "x")
        assert staged.engine.asked == ["rerun", "stop"]
        assert "Run 9 is stopped" in staged.said[-1]


async def test_stopping_a_run_notifies_the_user():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("x")
        assert "Timing of run 7 has ended" in staged.said[-1]
        await staged.show(fakes.session(fakes.failed(4)))
        await staged.press("x")
        assert "Nothing is running" in staged.said[-1]
        assert staged.engine.asked == ["stop"]


async def test_a_superseded_run_is_marked():
    async with stage() as staged:
        job = Job(run=1, file=fakes.FILE, source="")
        await tell(staged, job, PhaseStarted(run=1, phase="dynamo", at=0.1), replace(job, run=2))
        assert "1 superseded" in staged.screen
        await staged.press("left_square_bracket", "6")
        assert "superseded  by a newer run" in staged.screen


async def test_the_theme_changes_and_changes_back():
    async with stage(fakes.sitting()) as staged:
        dark = staged.view("source").render_lines(staged.view("source").size.region)[0]
        await staged.press("t")
        light = staged.view("source").render_lines(staged.view("source").size.region)[0]
        assert staged.app.theme == "tcexplore-light"
        assert dark.text == light.text
        assert [s.style for s in dark] != [s.style for s in light]
        await staged.press("t")
        assert staged.app.theme == "tcexplore-dark"


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
    async with stage(fakes.session(fakes.complete(7))) as staged:
        assert "This pane cannot be shown" in staged.screen
        assert "class MLP" in staged.screen


async def test_the_command_palette_has_the_actions_of_the_screen():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        titles = [command.title for command in staged.app.get_system_commands(staged.app.screen)]
        assert "Go to the next graph break" in titles
        assert "Quit the application as soon as possible" not in titles
        await staged.press("ctrl+p", *"zoom", "enter")
        await staged.press("escape")
        assert staged.app.screen is staged.app.main


async def test_q_quits():
    async with stage(fakes.sitting()) as staged:
        await staged.pilot.press("q")
        assert staged.app.return_code == 0


async def test_ctrl_c_names_the_key_to_quit():
    async with stage(fakes.session(fakes.complete(1))) as staged:
        await staged.press("ctrl+c")
        assert "q leaves" in staged.said[-1]
        assert staged.app.is_running
