"""Following a selection through the panes, and back; where the source opens."""

from __future__ import annotations

from dataclasses import replace

from tests import fakes
from tests.snapshots import gpu
from tests.snapshots.codes import with_code
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
        assert "No earlier jump" in staged.said[-1]
        await staged.press("F", "F")
        assert here(staged) == places[2]
        await staged.press("F")
        assert "No later jump" in staged.said[-1]


async def test_going_back_brings_view_and_selection_back():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "home", "down", "f")
        assert staged.current == "source"
        before = staged.app.main.selection.links
        await staged.press("5", "v", "1", "end", "backspace")
        assert staged.current == "code"
        assert staged.pane("code").view.name == "kernels"
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
        assert "Nothing to follow" in staged.said[-1]


async def test_hits_are_gone_through_where_nothing_is_searched_for():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("1", "home")
        await select(staged, "h.mean()")
        view = staged.view("code")
        await staged.press("5")
        first = view.cursor
        assert "mul+mean" in staged.row("code")
        await staged.press("n")
        second = view.cursor
        assert "in_out_ptr0[" in staged.row("code")
        assert "hit 2/2 in ▐1▌" in str(staged.pane("code").border_title)
        await staged.press("N")
        assert view.cursor == first
        for by in (1, 1, 1, -1, -1):
            view.next_hit(by)
        await staged.settle()
        assert view.cursor == second, "a key that is held down is not lost to the one behind it"
        await staged.press("down")
        assert "hit" not in str(staged.pane("code").border_title)


async def test_parentheses_go_from_kernel_to_kernel():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, ".relu()")
        lines = staged.app.main.selection.links
        await staged.press("5", "right_parenthesis")
        there = staged.row("code")
        await staged.press("right_parenthesis")
        assert {"extern_kernels.addmm", "tmp0"} == {
            word for word in ("extern_kernels.addmm", "tmp0") for row in (there, staged.row("code")) if word in row
        }
        await staged.press("left_parenthesis")
        assert staged.row("code") == there
        assert staged.app.main.selection.links == lines


async def test_no_hit_to_go_to_is_said():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, ".relu()")
        await staged.press("3", "n")
        assert "nothing here belongs to the selection" in staged.said[-1]


async def test_enter_in_the_list_of_kernels_opens_the_kernel_and_backspace_goes_back():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "home", "down", "down")
        chosen = staged.view("code").cursor
        await staged.press("enter")
        assert staged.row("code").startswith("▾ ▐1▌")
        await staged.press("backspace")
        assert staged.view("code").cursor == chosen


async def test_what_became_of_a_line_is_followed_before_what_else_there_is_to_it():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "h.mean()")
        seen = []
        for _ in range(3):
            await staged.press("f")
            seen.append(staged.current)
        assert seen == ["graph", "code", "source"], "the line has a break, too"


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


async def test_a_line_stays_selected_through_the_views_of_the_code_and_its_stages_are_gone_through():
    async with stage(fakes.session(gpu.run()), (80, 24)) as staged:
        await staged.press("1", "home")
        await select(staged, "torch.relu")
        line = staged.app.main.selection.links[0]
        await staged.press("5", "n")
        assert "tmp" in staged.row("code")
        await staged.press("v", "v")
        assert staged.pane("code").view.name == "stages"
        assert staged.app.main.selection.links[0] == line, "not all lines of the kernel, whose rows are passed"
        seen = []
        for _ in range(3):
            await staged.press("right_parenthesis")
            seen.append(str(staged.pane("code").border_title).partition(" in ")[2].partition(" of ▐1▌")[0])
        assert sorted(seen) == ["PTX", "SASS", "Triton"]
        await staged.press("f")
        assert staged.row("source").strip().endswith("return torch.relu(x @ w)")


async def test_the_views_of_the_code_are_turned_through_where_the_person_was():
    """From a statement of the second kernel to its stages, though the first one has hits too."""
    run = gpu.run()
    kernel = run.code.kernels[-1]
    again = [replace(found, name="triton_poi_fused_relu_1") for found in (kernel,)]
    made = replace(run.code.assembled[0], kernel="triton_poi_fused_relu_1")
    run = with_code(run, kernels=(*run.code.kernels, *again), assembled=(*run.code.assembled, made))
    async with stage(fakes.session(run), (80, 24)) as staged:
        await staged.press("1", "home")
        await select(staged, "torch.relu")
        await staged.press("5", "left_parenthesis")
        hit = "hit 3/3 in ▐2▌"
        assert hit in str(staged.pane("code").border_title)
        await staged.press("v", "v", "right_parenthesis", "left_parenthesis")
        assert "in Triton of ▐2▌" in str(staged.pane("code").border_title)


async def test_only_the_last_word_stands_at_the_edge():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("7", "end", "enter", "backspace")
        assert [said.partition(" ")[0] for said in staged.said] == ["No"]
