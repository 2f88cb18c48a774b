"""Following a selection through the panes and back; the row that the source opens at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.events import KernelStage, Location, TargetSkipped
from tcexplore.quantities import count
from tcexplore.session.links import kernel_link
from tcexplore.session.next_steps import COMPILE_FOLD
from tcexplore.ui.palette import CommandProvider
from tcexplore.ui.row_view import RowView
from tcexplore.ui.screens.target_screens import TargetScreen
from tests import fakes
from tests.snapshots import gpu, measured
from tests.snapshots.codes import with_code
from tests.ui.app_under_test import AppUnderTest, run_app


def _text(view: RowView, row: int) -> str:
    return view.document.row(row).text if row < len(view.document) else ""


def position(ui: AppUnderTest) -> tuple[str, str]:
    return ui.current, ui.row(ui.current)


async def select(ui: AppUnderTest, text: str) -> None:
    await ui.press("1", "slash", *text, "enter", "escape")


async def test_a_fold_that_is_opened_at_the_bottom_scrolls_its_rows_into_view():
    async with run_app(fakes.session(fakes.complete(7)), size=(80, 24)) as ui:
        await ui.press("6", "z")
        rows = ui.view("timing")
        document = rows.document
        fold = next(i for i in range(len(document)) if (document.row(i).fold or "") == COMPILE_FOLD)
        rows.move_to(fold)
        rows.scroll_to(y=fold - rows.size.height + 1, animate=False)
        await ui.press("enter")
        top, height = rows.scroll_offset.y, rows.size.height
        inside = len(rows.document) - len(document)
        assert rows.cursor == fold
        assert fold + inside < top + height, "all of its rows are in view"
        await ui.press("enter")
        assert len(rows.document) == len(document)
        rows.scroll_to(y=fold - rows.size.height + 1, animate=False)
        rows.show(StaticDocument("", tuple(map(rows.document.row, range(len(rows.document)))) * 2))
        assert rows.scroll_offset.y == fold - rows.size.height + 1, "a closed fold whose document grows later"


async def test_the_cursor_passes_rows_without_text():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        rows = ui.view("timing")
        text, blank = Row((Span("text"),)), Row((Span("  "),))
        rows.show(StaticDocument("", (text, blank, blank, text, blank)))
        rows.focus()
        passed = []
        for key in ("down", "down", "up", "up"):
            await ui.press(key)
            passed.append(rows.cursor)
        assert passed == [3, 3, 0, 0]


async def test_enter_folds_a_row_and_f_follows_it():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, "print(")
        await ui.press("3", "home", "enter")
        assert ui.current == "breaks"
        await ui.act("follow")
        assert ui.current == "code"


async def test_jumps_go_back_and_forward():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, "1.2")
        places = [position(ui)]
        for _ in range(2):
            await ui.press("enter")
            places.append(position(ui))
        assert [pane for pane, _ in places] == ["source", "graph", "code"]
        await ui.press("backspace")
        assert position(ui) == places[1]
        await ui.press("backspace")
        assert position(ui) == places[0]
        await ui.press("backspace")
        assert "No earlier jump" in ui.notifications[-1]
        await ui.press("F", "F")
        assert position(ui) == places[2]
        await ui.press("F")
        assert "No later jump" in ui.notifications[-1]


async def test_going_back_restores_view_and_selection():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("5", "home", "down")
        await ui.act("follow")
        assert ui.current == "source"
        before = ui.app.main.selection.links
        await ui.press("5", "v", "1", "end", "backspace")
        assert ui.current == "code"
        assert ui.pane("code").view.name == "kernels"
        assert ui.app.main.selection.links == before


async def test_following_works_with_a_single_pane_in_view():
    async with run_app(fakes.session(fakes.complete(7)), (80, 24)) as ui:
        await select(ui, "1.2")
        await ui.press("enter")
        assert position(ui)[0] == "graph"
        assert "mul" in ui.row("graph")
        await ui.press("enter")
        assert position(ui)[0] == "code"
        assert "mul" in ui.row("code")
        await ui.press("backspace", "backspace")
        assert "1.2" in ui.row("source")


async def test_a_row_without_a_target_notifies_the_user():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("1", "home", "enter")
        assert "No other pane" in ui.notifications[-1]
        await ui.press("7", "home", "enter")
        assert "Nothing to follow" in ui.notifications[-1]


async def test_n_goes_to_the_next_hit_without_a_search():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("1", "home")
        await select(ui, "h.mean()")
        view = ui.view("code")
        await ui.press("5")
        first = view.cursor
        assert "mul+mean" in ui.row("code")
        await ui.press("n")
        second = view.cursor
        assert "in_out_ptr0[" in ui.row("code")
        assert "highlight 2/2 in ▐1▌" in str(ui.pane("code").border_title)
        await ui.press("N")
        assert view.cursor == first
        for by in (1, 1, 1, -1, -1):
            view.next_hit(by)
        await ui.settle()
        assert view.cursor == second, "a key that is held down is not lost to the one behind it"
        await ui.press("down")
        assert "hit" not in str(ui.pane("code").border_title)


async def test_parentheses_go_to_the_next_kernel():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, ".relu()")
        lines = ui.app.main.selection.links
        await ui.press("5")
        await ui.act("next-kernel")
        kernel = ui.row("code")
        await ui.act("next-kernel")
        assert {"extern_kernels.addmm", "tmp0"} == {
            word for word in ("extern_kernels.addmm", "tmp0") for row in (kernel, ui.row("code")) if word in row
        }
        await ui.act("previous-kernel")
        assert ui.row("code") == kernel
        assert ui.app.main.selection.links == lines


async def test_the_number_of_a_pane_selects_the_row_under_its_cursor_unless_it_belongs_to_the_selection():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("3")
        assert ui.app.main.selection.links
        await select(ui, "h = h * 1.2")
        line = ui.app.main.selection.links
        await ui.press("5", "2")
        assert ui.app.main.selection.links == line, "both panes have rows for the line, and their cursors are on them"
        await ui.press("3")
        assert ui.app.main.selection.links != line


async def test_a_pane_without_hits_notifies_the_user():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, ".relu()")
        await ui.press("7", "n")
        assert "no highlighted row in this pane" in ui.notifications[-1]


async def test_enter_in_the_list_of_kernels_jumps_to_the_kernel():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("5", "home", "down", "down")
        chosen = ui.view("code").cursor
        await ui.press("enter")
        assert ui.row("code").startswith("▾ ▐1▌")
        await ui.press("backspace")
        assert ui.view("code").cursor == chosen


async def test_a_line_is_followed_to_graph_and_code_first():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, "h.mean()")
        panes = []
        for _ in range(3):
            await ui.act("follow")
            panes.append(ui.current)
        assert panes == ["graph", "code", "source"], "the line has a break, too"


async def test_the_source_opens_at_the_break():
    async with run_app(fakes.session(fakes.running(7)), (80, 24)) as ui:
        assert ui.view("source").cursor == 0
        await ui.show(fakes.session(fakes.complete(7)))
        assert "print(" in ui.row("source")
        await ui.press("home")
        await ui.show(fakes.session(fakes.complete(7), fakes.complete(8)))
        assert ui.view("source").cursor == 0


async def test_a_moved_cursor_stays():
    async with run_app(fakes.session(fakes.running(7)), (80, 24)) as ui:
        await ui.press("down", "down")
        await ui.show(fakes.session(fakes.complete(7)))
        assert ui.view("source").cursor == 2


async def test_the_source_opens_at_a_row_only_once():
    async with run_app(fakes.session(fakes.one_graph(7)), (80, 24)) as ui:
        put = ui.view("source").cursor
        assert "self.fc1(x)" in ui.row("source")
        moved = replace(fakes.complete(8), source=fakes.one_graph(7).source)
        await ui.show(fakes.session(fakes.one_graph(7), moved))
        assert ui.view("source").cursor == put


async def test_a_line_stays_selected_in_all_views_of_the_code():
    async with run_app(fakes.session(gpu.run()), (80, 24)) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        line = ui.app.main.selection.links[0]
        await ui.press("5", "n")
        assert "tmp" in ui.row("code")
        await ui.press("v", "v")
        assert ui.pane("code").view.name == "device"
        assert ui.app.main.selection.links[0] == line, "not all lines of the kernel, whose rows are passed"
        stages = []
        for _ in range(2):
            await ui.act("next-kernel")
            stages.append(str(ui.pane("code").border_title).partition(" in ")[2].partition(" of ▐1▌")[0])
        assert sorted(stages) == ["PTX", "Triton"]
        await ui.act("follow")
        assert ui.row("source").strip().endswith("return torch.relu(x @ w)")


async def test_a_closed_fold_is_highlighted_for_the_guards_that_it_hides():
    run = fakes.complete(7)
    hidden = next(guard for guard in run.guards[0].guards if guard.structural)
    at = Location(run.file, 18)
    guards = tuple(replace(guard, location=at if guard is hidden else None) for guard in run.guards[0].guards)
    async with run_app(fakes.session(replace(run, guards=(replace(run.guards[0], guards=guards),))), (80, 24)) as ui:
        await select(ui, "LayerNorm(1024)")
        await ui.press("4")
        await ui.settle()
        await ui.press("n")
        assert "structural guards" in ui.row("guards")
        links = ui.app.main.selection.links
        await ui.press("enter", "n")
        assert hidden.kind in ui.row("guards")
        assert ui.app.main.selection.links == links


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_the_assembly_of_the_selected_line_opens_once_it_is_known(size: tuple[int, int]):
    run = gpu.run()
    lowered = run.code.assembled
    async with run_app(fakes.session(with_code(run, assembled=())), size) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        commands = {command.title: command for command in CommandProvider(ui.app.main).commands()}
        commands["PTX and SASS for l4"].run()
        await ui.settle()
        assert ui.pane("code").view.name == "device"
        await ui.show(fakes.session(with_code(run, assembled=lowered)))
        assert "max.f32" in ui.screen
        assert "return torch.relu" in ui.row("code"), "the line, above its statements"
        assert ui.screen.index("tl.load") < ui.screen.index("ld.global") < ui.screen.index("tl.maximum")
        assert "FMNMX" not in ui.screen, "machine code stays folded"
        await ui.press("P")
        assert "FMNMX" in ui.screen, "again, the key shows the next form"
        assert "max.f32" not in ui.screen
        assert ui.notifications[-1] == "SASS is shown: P shows PTX."


async def test_the_row_of_the_slowest_kernel_leads_to_it_and_selects_it_for_the_other_views():
    async with run_app(fakes.session(measured.run())) as ui:
        await ui.press("5", "home")
        code = ui.view("code")
        code.move_to(next(n for n in range(len(code.document)) if _text(code, n).startswith(" slowest ")))
        await ui.press("enter")
        (kernel,) = (link for link in code.document.row(code.cursor).links if link.kind == "kernel")
        assert kernel in ui.app.main.selection.links
        await ui.press("v")
        assert ui.pane("code").view.name == "fusion"
        assert kernel in ui.view("code").document.row(ui.view("code").cursor).links


async def test_one_key_shows_the_assembly_of_the_line_and_asks_for_a_target_first():
    async with run_app(fakes.session(replace(gpu.run(), target="native"))) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("P")
        assert isinstance(ui.app.screen, TargetScreen)
        assert "h100" in ui.app.screen.reader.document.row(ui.app.screen.reader.cursor).text
        ui.app.screen.reader.move_to(next(row for row in range(20) if "l4" in _text(ui.app.screen.reader, row)))
        await ui.press("enter")
        assert ui.engine.requests == ["retarget l4 known"]
        assert "ld.global" in ui.screen
        await ui.press("backspace")
        assert "torch.relu" in ui.row("source")
        await ui.press("P")
        assert ui.current == "code", "once there is a target, the key asks for nothing"


async def test_on_a_gpu_the_machine_code_of_its_own_kernels_is_awaited_while_a_script_runs():
    done = gpu.run()
    kernels = tuple(replace(kernel, target="native") for kernel in done.code.kernels)
    native = replace(done, codes=(replace(done.code, target="native", kernels=kernels),), target="native")
    early = replace(with_code(native, assembled=(), lowered=()), status="running", phase="timing")
    async with run_app(fakes.session(early)) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("P")
        assert ui.current == "code"
        assert ui.notifications[-1].startswith("The machine code of this GPU's kernels is read when")
        await ui.show(fakes.session(replace(native, status="running", phase="timing")))
        assert "ld.global" in ui.screen


async def test_one_key_shows_the_assembly_of_a_cpu_kernel():
    run = gpu.run(target="native")
    stages = (KernelStage("assembly", "\tvmaxps zmm0, zmm0, zmm1", ((1, 5),)),)
    run = with_code(run, assembled=(replace(run.code.assembled[0], stages=stages),))
    async with run_app(fakes.session(run)) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("P")
        assert "vmaxps" in ui.screen


async def test_a_line_without_a_kernel_has_no_assembly():
    async with run_app(fakes.session(gpu.run())) as ui:
        await ui.press("1", "home")
        await select(ui, "x.is_cuda")
        await ui.press("P")
        assert "No generated kernel comes from this row: library calls" in ui.notifications[-1]


async def test_a_graph_that_could_not_be_lowered_has_no_assembly_and_the_reason_is_said():
    skipped = TargetSkipped(run=1, graph="0/0", target="l4", op="aten.embedding.default", reason="two devices")
    run = with_code(gpu.run(), kernels=(), assembled=(), lowered=(), not_lowered=(skipped,))
    async with run_app(fakes.session(run)) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("P")
        assert "Graph 0/0 could not be lowered for l4 at aten.embedding.default" in ui.notifications[-1]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_the_assembly_of_a_whole_kernel_is_that_of_its_statements(size: tuple[int, int]):
    async with run_app(fakes.session(gpu.run()), size) as ui:
        await ui.press("5", "home")
        row = next(n for n in range(len(ui.view("code").document)) if "▾ ▐1▌" in _text(ui.view("code"), n))
        ui.view("code").move_to(row)
        await ui.press("P")
        assert "ld.global" in ui.screen
        await ui.press("n")
        assert ui.app.main.selection.links, "the selection stays"


async def test_a_wide_pane_has_model_statement_and_instructions_side_by_side():
    async with run_app(fakes.session(gpu.run())) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("P", "z")
        line = next(line for line in ui.screen.splitlines() if "max.f32" in line)
        assert line.index("return torch.relu") < line.index("tl.maximum") < line.index("max.f32")


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_one_key_goes_to_the_guards_of_a_line_and_another_back(size: tuple[int, int]):
    run = fakes.complete(7)
    guard = next(guard for guard in run.guards[0].guards if guard.location and not guard.structural)
    assert guard.location is not None
    async with run_app(fakes.session(run), size) as ui:
        await ui.press("4", "v", "1", "home")
        ui.view("source").move_to(guard.location.line - 1)
        await ui.settle()
        line = position(ui)
        await ui.press("i")
        assert (ui.current, ui.pane("guards").view.name) == ("guards", "guards")
        assert guard.source in ui.row("guards")
        await ui.press("backspace")
        assert position(ui) == line
        await ui.press("home", "i")
        assert "No guard comes from this row" in ui.notifications[-1]
        assert ui.current == "source"


async def test_the_guards_of_a_line_are_alone_until_another_line_is_chosen():
    run = fakes.complete(7)
    by_line = {guard.location.line for guard in run.guards[0].guards if guard.location and not guard.structural}
    first, second = sorted(by_line)[:2]

    def lines(ui: AppUnderTest) -> set[int]:
        document = ui.view("guards").document
        places = (document.row(index).location for index in range(len(document)))
        return {place.line for place in places if place is not None}

    async with run_app(fakes.session(run), (160, 50)) as ui:
        await ui.press("1")
        ui.view("source").move_to(first - 1)
        await ui.press("i")
        await ui.settle()
        assert lines(ui) == {first}
        assert f"line {first}" in ui.view("guards").document.row(0).text
        assert "shows all" in ui.view("guards").document.row(0).text
        await ui.press("home", "enter")
        assert second in lines(ui), "enter on the first row shows all"
        await ui.press("1", "i")
        await ui.settle()
        assert lines(ui) == {first}
        await ui.press("1")
        ui.view("source").move_to(second - 1)
        await ui.settle()
        assert {first, second} <= lines(ui), "another line is selected"


async def test_the_guards_of_a_line_are_shown_while_a_kernel_of_it_is_selected():
    run = fakes.complete(7)
    guard = next(guard for guard in run.guards[0].guards if guard.location and not guard.structural)
    assert guard.location is not None
    kernel = run.code.kernels[-1]
    run = with_code(run, kernels=(*run.code.kernels[:-1], replace(kernel, source_lines=(guard.location,))))
    async with run_app(fakes.session(run)) as ui:
        await ui.press("1")
        ui.view("source").center_on(guard.location.line - 1)
        ui.app.main.selection.select((kernel_link(kernel),), ui.app.session)
        await ui.press("i")
        assert ui.current == "guards"
        assert guard.source in ui.row("guards")
        total = sum(len(installed.guards) for installed in run.guards)
        assert f", of {total}" in ui.pane("guards").border_title
        assert f"line {guard.location.line}: " in ui.pane("guards").border_title


async def test_guards_of_a_line_that_a_fold_hides_are_shown():
    run = fakes.complete(7)
    guard = next(guard for guard in run.guards[0].guards if guard.location and guard.structural)
    assert guard.location is not None
    async with run_app(fakes.session(run)) as ui:
        await ui.press("1", "home")
        ui.view("source").move_to(guard.location.line - 1)
        await ui.settle()
        await ui.press("i", "z")
        await ui.settle()
        assert guard.name in ui.screen
        own = [each for installed in run.guards for each in installed.guards if each.location == guard.location]
        structural = sum(each.structural for each in own)
        readable = count(len(own) - structural, "guard")
        assert f"{readable} and {structural} structural ones, of " in ui.pane("guards").border_title
        of_graph = sum(each.structural and each.location == guard.location for each in run.guards[0].guards)
        assert f"{count(of_graph, 'structural guard')} on modules and torch itself" in ui.screen
        await ui.press("home", "enter")
        await ui.settle()
        assert "▾ 59 structural guards" in ui.screen


async def test_views_of_the_code_open_at_the_same_statement():
    """The statement is one of the second kernel; the first one has hits, too."""
    run = gpu.run()
    kernel = run.code.kernels[-1]
    again = [replace(kernel, name="triton_poi_fused_relu_1")]
    assembled = replace(run.code.assembled[0], kernel="triton_poi_fused_relu_1")
    run = with_code(run, kernels=(*run.code.kernels, *again), assembled=(*run.code.assembled, assembled))
    async with run_app(fakes.session(run), (80, 24)) as ui:
        await ui.press("1", "home")
        await select(ui, "torch.relu")
        await ui.press("5")
        await ui.act("previous-kernel")
        hit = "highlight 3/3 in ▐2▌"
        assert hit in str(ui.pane("code").border_title)
        await ui.press("v", "v")
        await ui.act("next-kernel")
        await ui.act("previous-kernel")
        assert "in PTX of ▐2▌" in str(ui.pane("code").border_title)


async def test_only_the_last_notification_is_shown():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("7", "end", "enter", "backspace")
        assert [note.partition(" ")[0] for note in ui.notifications] == ["No"]
