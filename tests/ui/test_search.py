"""Search in a pane."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count

import pytest
from textual.events import Key
from textual.widgets import Input

from tcexplore.documents.document import Row
from tcexplore.ui import row_search
from tcexplore.ui.messages import KeyHandled
from tcexplore.ui.row_search import Query
from tests import fakes
from tests.documents.panes import BUILDERS
from tests.ui.app_under_test import AppUnderTest, run_app


def matches(ui: AppUnderTest, pane: str) -> list[int]:
    search = ui.view(pane).current_search
    assert search is not None
    return search.matches


def test_only_queries_with_capitals_are_case_sensitive():
    assert Query("gelu").hits("F.GELU(x)")
    assert not Query("Gelu").hits("gelu")
    assert Query("a[i]").places("b a[i] a[i]") == [(2, 6), (7, 11)]


async def test_matches_are_counted_marked_and_stepped_through():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("home", "slash", *"self.fc")
        assert "1 of 4" in ui.screen
        await ui.press("enter", "n")
        second = ui.view("source").cursor
        await ui.press("n", "N")
        assert ui.view("source").cursor == second
        for _ in range(3):
            await ui.press("n")
        assert ui.view("source").cursor == matches(ui, "source")[0]
        strips = ui.view("source").render_lines(ui.view("source").size.region)
        marked = [segment.text for strip in strips for segment in strip if segment.style and segment.style.underline]
        assert "".join(marked) == "self.fc" * 3


async def test_keys_that_arrive_together_are_handled_one_after_the_other():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        for key in (Key("slash", "/"), *(Key(letter, letter) for letter in "add")):
            ui.app.post_message(key)
        await ui.until(lambda: [entered.value for entered in ui.app.screen.query(Input)] == ["add"])


async def test_a_key_whose_widget_is_gone_holds_up_the_next_one_only_for_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KeyHandled, "bubble", False)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        for name in ("slash", "a", "a"):
            ui.app.post_message(Key(name, "/" if name == "slash" else name))
        await ui.until(lambda: [entered.value for entered in ui.app.screen.query(Input)] == ["aa"])


async def test_escape_returns_to_the_start_of_the_search():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("home", "down", "down", "slash", *"relu", "escape")
        assert ui.view("source").cursor == 2
        assert ui.view("source").current_search is None


async def test_the_view_scrolls_sideways_to_a_match():
    long = replace(fakes.complete(7), source="a\n" + "x" * 300 + "needle" + "y" * 300)
    async with run_app(fakes.session(long), (80, 24)) as ui:
        await ui.press("slash", *"needle", "enter")
        assert "needle" in ui.screen
        await ui.press("home")
        assert ui.view("source").column == 0


async def test_the_last_of_fifty_thousand_rows_is_found():
    async with run_app(fakes.session(fakes.large.snapshot())) as ui:
        await ui.press("5", "home")
        view = ui.view("code")
        view.search("tmp49999", 0)
        await ui.until(lambda: view.current_search is not None and view.current_search.complete)
        assert [view.document.row(row).text.count("tmp49999") for row in matches(ui, "code")] == [1, 1]


async def test_reading_rows_gives_way_to_keys_after_each_slice(monkeypatch: pytest.MonkeyPatch):
    """By a clock that each row advances by a quarter of a slice, at most four rows are read in a turn of the loop."""
    clock = count(0.0, row_search.SLICE / 4)
    monkeypatch.setattr(row_search, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(row_search, "REST", 0)
    document = BUILDERS["code"](fakes.large.snapshot(nodes=10, lines=100, guarded=20), frozenset(), 80)
    rows: list[int] = []

    def visit(index: int, _: Row) -> bool:
        rows.append(index)
        return False

    reading = asyncio.ensure_future(row_search.scan(document, range(100), visit))
    turns = []
    while not reading.done():
        before = len(rows)
        await asyncio.sleep(0)
        turns.append(len(rows) - before)
    assert rows == [*range(100)]
    assert max(turns) <= 4


async def test_the_count_shows_that_nothing_matches():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("slash", *"zzz")
        assert "0 of 0" in ui.screen


async def test_escape_ends_the_search_of_another_pane():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("2", "slash", "g", "e", "enter")
        assert " / ge" in ui.screen
        await ui.press("1", "escape")
        assert " / ge" not in ui.screen
        assert ui.view("graph").search_query is None
