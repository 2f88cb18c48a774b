"""Slow work is done in a thread while keys work."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tcexplore.session import Session
from tcexplore.ui.background_task import BackgroundTask, gc_paused, is_large
from tcexplore.ui.screens.diff_screen import DiffScreen
from tests import fakes
from tests.documents.views import edited
from tests.snapshots import training
from tests.ui.app_under_test import run_app


class Gate:
    """Delays a function until it is opened.

    If the function is called on the event loop, nothing can open the gate: it gives up after a while.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._open = threading.Event()
        self.gave_up = False
        self.calls = 0

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        self.gave_up |= not self._open.wait(20)
        return self._function(*given)

    def open(self) -> None:
        self._open.set()


def gated(monkeypatch: pytest.MonkeyPatch, place: str, function: Callable[..., Any], *large: str) -> Gate:
    """Delay a function with a gate, and treat every run as a large one."""
    delayed = Gate(function)
    monkeypatch.setattr(place, delayed)
    for module in large:
        monkeypatch.setattr(f"{module}.is_large", lambda *_: True)
    return delayed


def test_many_nodes_or_statements_make_a_run_large():
    assert not is_large(fakes.complete(7), None)
    assert is_large(fakes.large.snapshot(nodes=6000, lines=10))
    assert is_large(fakes.large.snapshot(nodes=10, lines=6000))


async def test_keys_work_while_a_view_is_built(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.documents.graph.decomposition_view import decomposition_document

    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.act("as-code")
        delayed = gated(
            monkeypatch,
            "tcexplore.documents.graph.decomposition_view.decomposition_document",
            decomposition_document,
            "tcexplore.ui.pane",
        )
        before = ui.view("graph").document
        ui.app.main.show_view("graph", "decomp")
        await ui.pilot.press("1", "end")
        assert (ui.current, ui.view("graph").document) == ("source", before)
        assert ui.view("source").cursor == len(ui.view("source").document) - 1
        delayed.open()
        await ui.settle()
        assert "[decomp]" in str(ui.pane("graph").border_title)
        assert ui.view("graph").document is not before
        assert (delayed.calls, delayed.gave_up) == (1, False)


async def test_a_view_that_the_user_left_is_not_shown(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.documents.graph.decomposition_view import decomposition_document

    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.act("as-code")
        before = ui.view("graph").document
        delayed = gated(
            monkeypatch,
            "tcexplore.documents.graph.decomposition_view.decomposition_document",
            decomposition_document,
            "tcexplore.ui.pane",
        )
        ui.app.main.show_view("graph", "decomp")
        ui.app.main.show_view("graph", "code")
        delayed.open()
        await ui.settle()
        assert ui.view("graph").document is before
        ui.app.main.show_view("graph", "decomp")
        await ui.settle()
        assert ui.view("graph").document is not before
        assert delayed.calls == 1, "the document is cached"


async def test_keys_work_while_a_run_is_indexed(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.ui.navigation import index_links

    async with run_app(fakes.session(fakes.complete(7))) as ui:
        delayed = gated(
            monkeypatch, "tcexplore.ui.screens.main_screen.index_links", index_links, "tcexplore.ui.navigation"
        )
        monkeypatch.setattr("tcexplore.ui.navigation.is_indexed", lambda _: False)
        await ui.pilot.press("slash", *"1.2", "enter", "escape", "2")
        assert ui.current == "graph"
        selection = ui.app.main.selection
        assert selection.chain == frozenset(selection.links)
        monkeypatch.setattr("tcexplore.ui.navigation.is_indexed", lambda _: True)
        delayed.open()
        await ui.settle()
        assert selection.chain > frozenset(selection.links)
        assert ui.view("graph").highlighted == selection.chain
        assert not delayed.gave_up


async def test_keys_work_while_two_runs_are_compared(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.documents.diff_view import diff_document

    async with run_app(fakes.session(training.run(3), edited())) as ui:
        delayed = gated(
            monkeypatch,
            "tcexplore.documents.diff_view.diff_document",
            diff_document,
            "tcexplore.ui.screens.diff_screen",
        )
        await ui.pilot.press("d")
        diff: object = ui.app.screen
        assert isinstance(diff, DiffScreen)
        assert "Comparing the two runs" in ui.screen
        await ui.pilot.press("escape")
        assert ui.app.screen is ui.app.main
        delayed.open()
        await ui.settle()
        await ui.press("d")
        assert "run 3 → run 4" in ui.screen
        assert not delayed.gave_up


async def test_only_the_last_request_is_built():
    delivered: list[int] = []
    task: BackgroundTask[int] = BackgroundTask(delivered.append)
    assert task.request(lambda: 1)
    assert not task.request(lambda: 2)
    await task.run()
    assert (delivered, task.is_idle) == ([2], True)


async def test_sessions_are_never_formatted(monkeypatch: pytest.MonkeyPatch):
    written: list[object] = []

    def record(session: Session) -> str:
        written.append(session)
        return ""

    monkeypatch.setattr(Session, "__repr__", record)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("2", "v", "v", "d", "escape")
        await ui.show(fakes.session(fakes.complete(7), fakes.complete(8)))
    assert written == []


def test_garbage_collection_pauses_until_the_last_task_is_done():
    def sees() -> bool:
        with gc_paused():
            return gc.isenabled()

    was = gc.isenabled()
    gc.enable()
    try:
        with gc_paused():
            assert not sees()
            assert not gc.isenabled()
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        (gc.enable if was else gc.disable)()
