"""Following a selection through the panes and back; the row that the source opens at."""

from __future__ import annotations

from dataclasses import replace

from tests import fakes
from tests.snapshots import gpu
from tests.snapshots.codes import with_code
from tests.ui.stage import Stage, stage


def position(staged: Stage) -> tuple[str, str]:
    return staged.current, staged.row(staged.current)


async def select(staged: Stage, text: str) -> None:
    await staged.press("1", "slash", *text, "enter", "escape")


async def test_enter_folds_a_row_and_f_follows_it():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "print(")
        await staged.press("3", "home", "enter")
        assert staged.current == "breaks"
        await staged.press("f")
        assert staged.current == "code"


async def test_jumps_go_back_and_forward():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "1.2")
        places = [position(staged)]
        for _ in range(2):
            await staged.press("enter")
            places.append(position(staged))
        assert [pane for pane, _ in places] == ["source", "graph", "code"]
        await staged.press("backspace")
        assert position(staged) == places[1]
        await staged.press("backspace")
        assert position(staged) == places[0]
        await staged.press("backspace")
        assert "No earlier jump" in staged.said[-1]
        await staged.press("F", "F")
        assert position(staged) == places[2]
        await staged.press("F")
        assert "No later jump" in staged.said[-1]


async def test_going_back_restores_view_and_selection():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "home", "down", "f")
        assert staged.current == "source"
        before = staged.app.main.selection.links
        await staged.press("5", "v", "1", "end", "backspace")
        assert staged.current == "code"
        assert staged.pane("code").view.name == "kernels"
        assert staged.app.main.selection.links == before


async def test_following_works_with_a_single_pane_in_view():
    async with stage(fakes.session(fakes.complete(7)), (80, 24)) as staged:
        await select(staged, "1.2")
        await staged.press("enter")
        assert position(staged)[0] == "graph"
        assert "mul" in staged.row("graph")
        await staged.press("enter")
        assert position(staged)[0] == "code"
        assert "mul" in staged.row("code")
        await staged.press("backspace", "backspace")
        assert "1.2" in staged.row("source")


async def test_a_row_without_a_target_notifies_the_user():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("1", "home", "enter")
        assert "No other pane" in staged.said[-1]
        await staged.press("7", "home", "enter")
        assert "Nothing to follow" in staged.said[-1]


async def test_n_goes_to_the_next_hit_without_a_search():
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


async def test_parentheses_go_to_the_next_kernel():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, ".relu()")
        lines = staged.app.main.selection.links
        await staged.press("5", "right_parenthesis")
        kernel = staged.row("code")
        await staged.press("right_parenthesis")
        assert {"extern_kernels.addmm", "tmp0"} == {
            word for word in ("extern_kernels.addmm", "tmp0") for row in (kernel, staged.row("code")) if word in row
        }
        await staged.press("left_parenthesis")
        assert staged.row("code") == kernel
        assert staged.app.main.selection.links == lines


async def test_a_pane_without_hits_notifies_the_user():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, ".relu()")
        await staged.press("3", "n")
        assert "nothing here belongs to the selection" in staged.said[-1]


async def test_enter_in_the_list_of_kernels_jumps_to_the_kernel():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "home", "down", "down")
        chosen = staged.view("code").cursor
        await staged.press("enter")
        assert staged.row("code").startswith("▾ ▐1▌")
        await staged.press("backspace")
        assert staged.view("code").cursor == chosen


async def test_a_line_is_followed_to_graph_and_code_first():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "h.mean()")
        panes = []
        for _ in range(3):
            await staged.press("f")
            panes.append(staged.current)
        assert panes == ["graph", "code", "source"], "the line has a break, too"


async def test_the_source_opens_at_the_break():
    async with stage(fakes.session(fakes.running(7)), (80, 24)) as staged:
        assert staged.view("source").cursor == 0
        await staged.show(fakes.session(fakes.complete(7)))
        assert "print(" in staged.row("source")
        await staged.press("home")
        await staged.show(fakes.session(fakes.complete(7), fakes.complete(8)))
        assert staged.view("source").cursor == 0


async def test_a_moved_cursor_stays():
    async with stage(fakes.session(fakes.running(7)), (80, 24)) as staged:
        await staged.press("down", "down")
        await staged.show(fakes.session(fakes.complete(7)))
        assert staged.view("source").cursor == 2


async def test_the_source_opens_at_a_row_only_once():
    async with stage(fakes.session(fakes.one_graph(7)), (80, 24)) as staged:
        put = staged.view("source").cursor
        assert "self.fc1(x)" in staged.row("source")
        moved = replace(fakes.complete(8), source=fakes.one_graph(7).source)
        await staged.show(fakes.session(fakes.one_graph(7), moved))
        assert staged.view("source").cursor == put


async def test_a_line_stays_selected_in_all_views_of_the_code():
    async with stage(fakes.session(gpu.run()), (80, 24)) as staged:
        await staged.press("1", "home")
        await select(staged, "torch.relu")
        line = staged.app.main.selection.links[0]
        await staged.press("5", "n")
        assert "tmp" in staged.row("code")
        await staged.press("v", "v")
        assert staged.pane("code").view.name == "stages"
        assert staged.app.main.selection.links[0] == line, "not all lines of the kernel, whose rows are passed"
        stages = []
        for _ in range(3):
            await staged.press("right_parenthesis")
            stages.append(str(staged.pane("code").border_title).partition(" in ")[2].partition(" of ▐1▌")[0])
        assert sorted(stages) == ["PTX", "SASS", "Triton"]
        await staged.press("f")
        assert staged.row("source").strip().endswith("return torch.relu(x @ w)")


async def test_views_of_the_code_open_at_the_same_statement():
    """The statement is one of the second kernel; the first one has hits, too."""
    run = gpu.run()
    kernel = run.code.kernels[-1]
    again = [replace(kernel, name="triton_poi_fused_relu_1")]
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


async def test_only_the_last_notification_is_shown():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("7", "end", "enter", "backspace")
        assert [said.partition(" ")[0] for said in staged.said] == ["No"]
