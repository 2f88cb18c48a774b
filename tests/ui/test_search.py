"""Search in a pane."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import perf_counter

from tcexplore.ui.lines.search import Query
from tests import fakes
from tests.ui.stage import Stage, stage


def matches(staged: Stage, pane: str) -> list[int]:
    search = staged.view(pane).current_search
    assert search is not None
    return search.matches


def test_only_queries_with_capitals_are_case_sensitive():
    assert Query("gelu").hits("F.GELU(x)")
    assert not Query("Gelu").hits("gelu")
    assert Query("a[i]").places("b a[i] a[i]") == [(2, 6), (7, 11)]


async def test_matches_are_counted_marked_and_stepped_through():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("home", "slash", *"self.fc")
        assert "1 of 4" in staged.screen
        await staged.press("enter", "n")
        second = staged.view("source").cursor
        await staged.press("n", "N")
        assert staged.view("source").cursor == second
        for _ in range(3):
            await staged.press("n")
        assert staged.view("source").cursor == matches(staged, "source")[0]
        strips = staged.view("source").render_lines(staged.view("source").size.region)
        marked = [segment.text for strip in strips for segment in strip if segment.style and segment.style.underline]
        assert "".join(marked) == "self.fc" * 3


async def test_escape_returns_to_the_start_of_the_search():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("home", "down", "down", "slash", *"relu", "escape")
        assert staged.view("source").cursor == 2
        assert staged.view("source").current_search is None


async def test_the_view_scrolls_sideways_to_a_match():
    long = replace(fakes.complete(7), source="a\n" + "x" * 300 + "needle" + "y" * 300)
    async with stage(fakes.session(long), (80, 24)) as staged:
        await staged.press("slash", *"needle", "enter")
        assert "needle" in staged.screen
        await staged.press("home")
        assert staged.view("source").column == 0


async def test_searching_fifty_thousand_rows_does_not_block_the_event_loop():
    async with stage(fakes.session(fakes.large.snapshot())) as staged:
        await staged.press("5", "home")
        view = staged.view("code")
        view.search("tmp49999", 0)
        longest, turns, last = 0.0, 0, perf_counter()
        async with asyncio.timeout(60):
            assert view.current_search is not None
            while not view.current_search.complete:
                await asyncio.sleep(0.001)
                now = perf_counter()
                longest, turns, last = max(longest, now - last), turns + 1, now
        assert matches(staged, "code")
        assert turns > 50
        assert longest < 0.25


async def test_the_count_shows_that_nothing_matches():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("slash", *"zzz")
        assert "0 of 0" in staged.screen
