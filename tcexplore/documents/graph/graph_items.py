"""What the rows of one graph stand for, and the gutter beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tcexplore.documents.graph.graph_basis import GraphOf
from tcexplore.documents.graph.graph_gutter import Drawn, draw
from tcexplore.documents.graph.module_runs import runs
from tcexplore.events import FxNode

GLYPHS = {"placeholder": "●", "get_attr": "●", "output": "◎"}
CALL, FOLDED = "○", "◍"


class Item(NamedTuple):
    """One row: a single node, or the stretch of a module (`module` set): folded, or the heading of its open rows."""

    nodes: Sequence[FxNode]
    module: str | None = None
    fold: str | None = None
    opened: bool = False

    @property
    def glyph(self) -> str:
        return FOLDED if self.module else GLYPHS.get(self.nodes[0].op, CALL)


class Laid(NamedTuple):
    """A graph's hidden nodes, its rows and their gutter."""

    hidden: tuple[FxNode, ...]
    items: list[Item]
    gutter: list[Drawn]


def lay_out(graph: GraphOf, toggled: frozenset[str], columns: int) -> Laid:
    """The rows of a graph with these folds toggled, the gutter at most `columns` lines wide."""
    hidden = tuple(node for node in graph.nodes if graph.hidden(node))
    rest = [node for node in graph.nodes if not graph.hidden(node)]
    items = list(_items(graph.name, rest, toggled))
    inputs = _inputs(items, {node.name for node in hidden})
    return Laid(hidden, items, draw(inputs, columns, [item.glyph for item in items]))


def _items(graph: str, nodes: Sequence[FxNode], toggled: frozenset[str]) -> Iterable[Item]:
    for run in runs(nodes):
        members = nodes[run.first : run.last]
        if run.module is not None:
            fold = f"module {graph} {members[0].name}"
            yield Item(members, run.module, fold, fold in toggled)
            if fold not in toggled:
                continue
        yield from (Item((node,)) for node in members)


def _inputs(items: Sequence[Item], hidden: set[str]) -> list[list[int] | None]:
    """For each row the rows that it reads; None for a heading, which reads nothing. Order is that of the arguments."""
    row = {node.name: index for index, item in enumerate(items) if not item.opened for node in item.nodes}
    read: list[list[int] | None] = []
    for index, item in enumerate(items):
        names = (name for node in item.nodes for name in node.inputs if name not in hidden)
        rows = dict.fromkeys(row[name] for name in names if row.get(name, index) != index)
        read.append(None if item.opened else list(rows))
    return read
