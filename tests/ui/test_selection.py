"""One selection, highlighted in every pane."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.session.links import Link
from tests import fakes
from tests.ui.app_under_test import AppUnderTest, run_app


def highlighted(ui: AppUnderTest, pane: str) -> list[str]:
    """Return the highlighted lines of a pane."""
    view = ui.view(pane)
    return [strip.text for strip in view.render_lines(view.size.region) if "◀" in strip.text]


async def select(ui: AppUnderTest, text: str) -> None:
    """Put the cursor of the source pane on the first line with this text."""
    await ui.press("1", "slash", *text, "enter", "escape")


async def test_a_line_highlights_its_nodes_guards_and_statements():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, "1.2")
        assert [row.split()[1] for row in highlighted(ui, "graph")] == ["mul"]
        assert all("mul" in row or "1.2" in row or "fuses" in row for row in highlighted(ui, "code") if "▌" in row)
        assert highlighted(ui, "code")
        assert highlighted(ui, "breaks") == []


async def test_a_break_and_its_line_highlight_each_other():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("b")
        assert "print" in ui.row("source")
        assert any("✖ line" in row for row in highlighted(ui, "breaks"))
        await select(ui, "print(")
        assert any("✖ line" in row for row in highlighted(ui, "breaks"))


async def test_breaks_are_visited_in_the_order_of_their_pane():
    run = fakes.complete(7)
    (cheap,) = run.breaks
    assert cheap.location is not None
    dear = replace(cheap, location=replace(cheap.location, line=cheap.location.line - 1))
    assert dear.location is not None
    costs = (
        ev.BreakCost(location=cheap.location, us=5.0, gaps=1), ev.BreakCost(location=dear.location, us=50.0, gaps=1)
    )  # fmt: skip
    measured = ev.BreakCosts(run=7, costs=costs, total_us=100.0, units=1)
    run = replace(run, breaks=(cheap, dear), break_costs=measured, first_break_costs=measured, fixes=())
    async with run_app(fakes.session(run)) as ui:
        visited = []
        for _ in range(2):
            await ui.press("b")
            visited.append(ui.row("breaks"))
    assert f"line {dear.location.line}" in visited[0]
    assert f"line {cheap.location.line}" in visited[1]


async def test_a_run_without_breaks_notifies_the_user():
    async with run_app(fakes.session(fakes.one_graph(7))) as ui:
        await ui.press("b")
        assert "No graph break" in ui.notifications[-1]


async def test_enter_follows_a_line_to_its_node_to_its_statement_and_back():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await select(ui, "1.2")
        await ui.press("enter")
        assert ui.current == "graph"
        assert "mul" in ui.row("graph")
        await ui.press("enter")
        assert ui.current == "code"
        assert "mul" in ui.row("code")
        await ui.press("enter")
        assert ui.current == "source"
        assert "1.2" in ui.row("source")


async def test_enter_folds_and_unfolds():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("2")
        before = len(ui.view("graph").document)
        await ui.press("enter")
        folded = len(ui.view("graph").document)
        await ui.press("enter")
        assert folded < before == len(ui.view("graph").document)


async def test_the_graph_as_code_and_back():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("2")
        await ui.act("as-code")
        assert "def forward" in "".join(ui.view("graph").document.row(i).text for i in range(8))
        await ui.act("as-code")
        assert "parameters" in ui.view("graph").document.row(1).text


async def test_a_selection_in_a_large_run_is_highlighted():
    async with run_app(fakes.session(fakes.large.snapshot())) as ui:
        await ui.press("2", "end")
        await ui.settle()
        links = ui.app.main.selection.links
        assert isinstance(links[0], Link)
        assert links[0] in ui.app.main.selection.chain


async def test_a_line_highlights_its_statements_in_the_graph_as_code():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("2")
        await ui.act("as-code")
        await select(ui, "1.2")
        rows = highlighted(ui, "graph")
        assert len(rows) == 1
        assert "h_2" in rows[0]
