"""Following a selection through the panes, and back; where the source opens."""

from __future__ import annotations

from dataclasses import replace

from tests import fakes
from tests.ui.stage import Stage, stage


def here(staged: Stage) -> tuple[str, str]:
    return staged.current, staged.row(staged.current)


async def select(staged: Stage, text: str) -> None:
    await staged.press("1", "slash", *text, "enter", "escape")


async def test_a_fold_folds_on_enter_and_is_followed_on_f():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "print(")
        await staged.press("3", "home", "enter")
        assert staged.current == "breaks"
        await staged.press("f")
        assert staged.current == "code"


async def test_the_way_back_and_forward_again():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "1.2")
        places = [here(staged)]
        for _ in range(2):
            await staged.press("enter")
            places.append(here(staged))
        assert [pane for pane, _ in places] == ["source", "graph", "code"]
        await staged.press("backspace")
        assert here(staged) == places[1]
        await staged.press("backspace")
        assert here(staged) == places[0]
        await staged.press("backspace")
        assert "Nothing was followed" in staged.said[-1]
        await staged.press("F", "F")
        assert here(staged) == places[2]
        await staged.press("F")
        assert "nothing further" in staged.said[-1]


async def test_going_back_brings_view_and_selection_back():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "home", "down", "enter")
        assert staged.current == "source"
        before = staged.app.main.selection.links
        await staged.press("5", "v", "1", "end", "backspace")
        assert staged.current == "code"
        assert staged.pane("code").form.name == "kernels"
        assert staged.app.main.selection.links == before


async def test_one_pane_at_a_time_is_followed_too():
    async with stage(fakes.session(fakes.complete(7)), (80, 24)) as staged:
        await select(staged, "1.2")
        await staged.press("enter")
        assert here(staged)[0] == "graph"
        assert "mul" in staged.row("graph")
        await staged.press("enter")
        assert here(staged)[0] == "code"
        assert "mul" in staged.row("code")
        await staged.press("backspace", "backspace")
        assert "1.2" in staged.row("source")


async def test_nowhere_to_go_is_said():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("1", "home", "enter")
        assert "No other pane" in staged.said[-1]
        await staged.press("7", "home", "enter")
        assert "leads nowhere" in staged.said[-1]


async def test_lit_rows_are_gone_through_where_nothing_is_searched_for():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "F.gelu")
        await staged.press("5", "n")
        first = staged.view("code").cursor
        await staged.press("n")
        second = staged.view("code").cursor
        assert second > first
        await staged.press("N")
        assert staged.view("code").cursor == first
        view = staged.view("code")
        for _ in range(3):
            view.next_lit(1)
        view.next_lit(-1)
        view.next_lit(-1)
        await staged.settle()
        assert view.cursor == second, "a key that is held down is not lost to the one behind it"


async def test_the_source_opens_at_the_break():
    async with stage(fakes.session(fakes.running(7)), (80, 24)) as staged:
        assert staged.view("source").cursor == 0
        await staged.show(fakes.session(fakes.complete(7)))
        assert "print(" in staged.row("source")
        await staged.press("home")
        await staged.show(fakes.session(fakes.complete(7), fakes.complete(8)))
        assert staged.view("source").cursor == 0


async def test_a_cursor_that_was_moved_stays():
    async with stage(fakes.session(fakes.running(7)), (80, 24)) as staged:
        await staged.press("down", "down")
        await staged.show(fakes.session(fakes.complete(7)))
        assert staged.view("source").cursor == 2


async def test_a_cursor_stays_where_the_first_run_put_it():
    async with stage(fakes.session(fakes.one_graph(7)), (80, 24)) as staged:
        put = staged.view("source").cursor
        assert "self.fc1(x)" in staged.row("source")
        moved = replace(fakes.complete(8), source=fakes.one_graph(7).source)
        await staged.show(fakes.session(fakes.one_graph(7), moved))
        assert staged.view("source").cursor == put
