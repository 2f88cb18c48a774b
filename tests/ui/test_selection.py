"""One selection, highlighted in every pane."""

from __future__ import annotations

from tcexplore.session.links import Link
from tests import fakes
from tests.ui.stage import Stage, stage


def highlighted(staged: Stage, pane: str) -> list[str]:
    """Return the highlighted lines of a pane."""
    view = staged.view(pane)
    return [strip.text for strip in view.render_lines(view.size.region) if "◀" in strip.text]


async def select(staged: Stage, text: str) -> None:
    """Put the cursor of the source pane on the first line with this text."""
    await staged.press("1", "slash", *text, "enter", "escape")


async def test_a_line_highlights_its_nodes_guards_and_statements():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await select(staged, "1.2")
        assert [row.split()[1] for row in highlighted(staged, "graph")] == ["mul"]
        assert all("mul" in row or "1.2" in row or "fuses" in row for row in highlighted(staged, "code") if "▌" in row)
        assert highlighted(staged, "code")
        assert highlighted(staged, "breaks") == []


async def test_a_break_and_its_line_highlight_each_other():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("b")
        assert "print" in staged.row("source")
        assert any("print" in row for row in highlighted(staged, "breaks"))
        await select(staged, "print(")
        assert any("print" in row for row in highlighted(staged, "breaks"))


async def test_a_run_without_breaks_notifies_the_user():
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


async def test_a_selection_in_a_large_run_is_highlighted():
    async with stage(fakes.session(fakes.large.snapshot())) as staged:
        await staged.press("2", "end")
        await staged.settle()
        links = staged.app.main.selection.links
        assert isinstance(links[0], Link)
        assert links[0] in staged.app.main.selection.chain


async def test_a_line_highlights_its_statements_in_the_graph_as_code():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("2", "c")
        await select(staged, "1.2")
        rows = highlighted(staged, "graph")
        assert len(rows) == 1
        assert "h_2" in rows[0]
