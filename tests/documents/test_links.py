"""Selecting a row highlights related rows in every pane."""

from __future__ import annotations

from tcexplore.documents.document import Document, Row
from tcexplore.session import Snapshot
from tcexplore.session.links import closure
from tests import fakes
from tests.documents.panes import BUILDERS
from tests.snapshots.mlp_source import at, line


def rows(document: Document) -> list[Row]:
    return [document.row(index) for index in range(len(document))]


def lit(snapshot: Snapshot, pane: str, selected: Row) -> list[Row]:
    """Return the rows of a pane that are related to a row."""
    chain = closure(snapshot, selected.links)
    own = (
        (row, {link for link in row.links if link.kind == row.links[0].kind})
        for row in rows(_build(snapshot, pane))
        if row.links
    )
    return [row for row, links in own if links & chain]


def _build(snapshot: Snapshot, pane: str) -> Document:
    return BUILDERS[pane](snapshot, frozenset(), 120)


def row_with(snapshot: Snapshot, pane: str, text: str) -> Row:
    return next(row for row in rows(_build(snapshot, pane)) if text in row.text)


def test_line_highlights_its_nodes_and_their_statements():
    run = fakes.complete()
    selected = row_with(run, "source", "F.gelu(self.norm(h))")
    assert [row.copy.partition(" =")[0] for row in lit(run, "graph", selected)] == ["layer_norm", "h_1"]
    statements = [row for row in lit(run, "code", selected) if row.links[0].kind == "aten"]
    assert {link.name for row in statements for link in row.links if link.kind == "aten"} == {
        "var_mean", "sub", "add", "rsqrt", "mul", "mul_1", "add_1", "mul_2", "mul_3", "erf", "add_2", "mul_4",
    }  # fmt: skip


def test_statement_highlights_only_its_line():
    run = fakes.complete()
    statement = row_with(run, "code", "tmp21.erf()")
    assert [row.location.line for row in lit(run, "source", statement)] == [line("F.gelu")]
    assert [row.copy.partition(" =")[0] for row in lit(run, "graph", statement)] == ["h_1"]


def test_node_highlights_only_its_statements():
    run = fakes.complete()
    node = row_with(run, "graph", "mul(h_1, 1.2)")
    names = {link.name for row in lit(run, "code", node) for link in row.links if link.kind == "aten"}
    assert names == {"mul_5", "mean"}, "the last statement belongs to both"
    assert [row.location for row in lit(run, "source", node)] == [at("h * 1.2", "")]


def test_folded_graph_row_links_to_all_hidden_nodes():
    run = fakes.large.snapshot(nodes=400, lines=10, guarded=10)
    folded = next(row for row in rows(_build(run, "graph")) if row.fold and row.fold.startswith("module"))
    assert len([link for link in folded.links if link.kind == "node"]) == 25


def test_break_and_its_line_highlight_each_other():
    run = fakes.complete()
    source_line = row_with(run, "source", "print(")
    assert any("✖ line" in row.text for row in lit(run, "breaks", source_line))
    broken = row_with(run, "breaks", "✖ line")
    assert [row.location.line for row in lit(run, "source", broken)] == [line("print(")]
