"""Two saves compared, and the base that saves are compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.events import EntryFound, TimingVerdict
from tcexplore.session import Snapshot
from tcexplore.ui.palette import CommandProvider
from tcexplore.ui.screens.diff_screen import DiffScreen
from tests import fakes
from tests.documents.views import edited, same
from tests.snapshots import training
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app


def comparison(ui: AppUnderTest) -> DiffScreen:
    screen = ui.app.screen
    assert isinstance(screen, DiffScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
async def test_the_screen(size: tuple[int, int]):
    async with run_app(fakes.session(training.run(3), edited()), size) as ui:
        await ui.press("d")
        check_screen(f"diff_{size[0]}x{size[1]}", ui)


async def test_a_run_is_compared_with_the_base_or_the_one_before():
    async with run_app(fakes.session(training.run(3), edited(), same())) as ui:
        await ui.press("d")
        assert "run 4 → run 5" in ui.screen
        await ui.press("left_square_bracket")
        assert "run 3 → run 5" in ui.screen
        assert "SAME PROGRAM" in ui.screen
        await ui.press("left_square_bracket")
        assert "No other run" in ui.notifications[-1]
        await ui.press("escape", "left_square_bracket", "left_square_bracket")
        await ui.act("base")
        await ui.act("newest-save")
        assert "3: base" in ui.screen
        assert "since base, run 3" in ui.screen
        await ui.press("d")
        assert "run 3 → run 5" in ui.screen
        await ui.press("d")
        await ui.act("base")
        assert "5: base" in ui.screen
        await ui.act("base")
        assert "base" not in ui.screen


async def test_a_verdict_that_comes_while_the_screen_is_open_is_shown():
    before, after, timing = training.run(3), edited(), fakes.complete().timing
    assert timing is not None

    def edited_with(verdict: TimingVerdict) -> Snapshot:
        return replace(after, timing=replace(timing, verdict=verdict))

    async with run_app(fakes.session(before, edited_with("measuring"))) as ui:
        await ui.press("d")
        assert "too few pairs for a verdict" in ui.screen
        await ui.show(fakes.session(before, edited_with("undecided")))
        assert "too few pairs for a verdict" not in ui.screen


async def test_a_run_of_another_entry_is_compared_only_when_it_is_chosen():
    def of(name: str, run: Snapshot) -> Snapshot:
        return run.apply(EntryFound(run=run.run, name=name, kind="function", rule="", calls=()))

    async with run_app(fakes.session(of("score", training.run(3)), of("model", edited()))) as ui:
        assert "since run 3" not in ui.screen
        await ui.press("d")
        assert "Nothing to compare with" in ui.screen
        await ui.press("escape", "left_square_bracket")
        await ui.act("base")
        await ui.act("newest-save")
        assert "since base, run 3" in ui.screen


async def test_the_next_save_is_compared_as_soon_as_it_is_known():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("d")
        assert "Nothing to compare with" in ui.screen
        await ui.show(fakes.session(training.run(3), fakes.running(4)))
        assert "The diff of run 3 and run 4 follows as soon as run 4 is over." in ui.screen
        await ui.show(fakes.session(training.run(3), edited()))
        assert "run 3 → run 4" in ui.screen


async def test_tab_goes_through_the_parts_and_enter_folds_them():
    async with run_app(fakes.session(training.run(3), edited())) as ui:
        await ui.press("d", "tab")
        view = comparison(ui).reader
        first, length = view.cursor, len(view.document)
        await ui.press("enter")
        assert len(view.document) < length
        await ui.press("tab")
        assert view.cursor > first
        await ui.press("shift+tab")
        assert view.cursor == first


async def test_it_is_searched_and_copied_like_a_pane():
    async with run_app(fakes.session(training.run(3), edited())) as ui:
        await ui.press("d", "slash", *"twice")
        assert "1 of " in ui.screen
        await ui.press("enter", "y", "escape")
        assert "twice" in ui.app.clipboard
        await ui.press("escape")
        assert ui.app.screen is ui.app.main


async def test_help_and_palette_have_its_keys():
    async with run_app(fakes.session(training.run(3), edited()), (100, 50)) as ui:
        await ui.press("d", "question_mark")
        assert "╭─ Diff ─" in ui.screen
        await ui.press("escape")
        titles = [command.title for command in CommandProvider(ui.app.screen).commands()]
        assert "Diff with an earlier run" in titles
        assert "Go to the next graph break" not in titles
