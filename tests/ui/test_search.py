"""Search in a pane."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import perf_counter

from tcexplore.ui.lines.search import Query
from tests import fakes
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


async def test_searching_fifty_thousand_rows_does_not_block_the_event_loop():
    async with run_app(fakes.session(fakes.large.snapshot())) as ui:
        await ui.press("5", "home")
        view = ui.view("code")
        view.search("tmp49999", 0)
        longest, turns, last = 0.0, 0, perf_counter()
        async with asyncio.timeout(60):
            assert view.current_search is not None
            while not view.current_search.complete:
                await asyncio.sleep(0.001)
                now = perf_counter()
                longest, turns, last = max(longest, now - last), turns + 1, now
        assert matches(ui, "code")
        assert turns > 50
        assert longest < 0.25


async def test_the_count_shows_that_nothing_matches():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("slash", *"zzz")
        assert "0 of 0" in ui.screen
