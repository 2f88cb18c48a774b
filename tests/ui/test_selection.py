"""One selection, the same thing lit in every pane."""

from __future__ import annotations

from tcexplore.session.links import Link
from tests import fakes
from tests.ui.stage import Stage, stage


def lit(staged: Stage, pane: str) -> list[str]:
    """The rows of a pane that carry the mark, as they stand on the screen."""
    view = staged.view(pane)
    return [strip.text for strip in view.render_lines(view.size.region) if "◀" in strip.text]


async def select(staged: Stage, text: str) -> None:
    """Put the cursor of the source pane on the first line with this text."""
    await staged.press("1", "slash", *text, "enter", "escape")


async def test_a_line_lights_its_nodes_guards_and_statements():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "1.2")
        assert [row.split()[1] for row in lit(staged, "graph")] == ["mul"]
        assert all("mul" in row or "1.2" in row or "fuses" in row for row in lit(staged, "code") if "▌" in row)
        assert lit(staged, "code")
        assert lit(staged, "breaks") == []


async def test_a_break_lights_its_line_and_is_lit_by_it():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("b")
        assert "print" in staged.row("source")
        assert any("print" in row for row in lit(staged, "breaks"))
        await select(staged, "print(")
        assert any("print" in row for row in lit(staged, "breaks"))


async def test_no_break_to_go_to_is_said():
    async with stage(fakes.session(fakes.one_graph(7))) as staged:
        await staged.press("b")
        assert "No graph break" in staged.said[-1]


async def test_enter_follows_a_line_to_its_node_to_its_statement_and_back():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "1.2")
        await staged.press("enter")
        assert staged.current == "graph"
        assert "mul" in staged.row("graph")
        await staged.press("enter")
        assert staged.current == "code"
        assert "mul" in staged.row("code")
        await staged.press("enter")
        assert staged.current == "source"
        assert "1.2" in staged.row("source")


async def test_enter_folds_and_unfolds():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("2")
        before = len(staged.view("graph").document)
        await staged.press("enter")
        folded = len(staged.view("graph").document)
        await staged.press("enter")
        assert folded < before == len(staged.view("graph").document)


async def test_the_graph_as_code_and_back():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("2", "c")
        assert "def forward" in "".join(staged.view("graph").document.row(i).text for i in range(8))
        await staged.press("c")
        assert "parameters" in staged.view("graph").document.row(1).text


async def test_large_run_lights_within_a_frame_or_three():
    async with stage(fakes.session(fakes.large.snapshot())) as staged:
        await staged.press("2", "end")
        await staged.settle()
        links = staged.app.main.selection.links
        assert isinstance(links[0], Link)
        assert links[0] in staged.app.main.selection.chain


async def test_a_line_lights_its_statements_in_the_graph_as_code():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("2", "c")
        await select(staged, "1.2")
        found = lit(staged, "graph")
        assert len(found) == 1
        assert "h_2" in found[0]
