"""The rows of one graph: gutter, op, kernel, value, line, name, call, in order of importance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tcexplore.documents.document import Part, Row, Span
from tcexplore.documents.graph.graph_gutter import Drawn
from tcexplore.documents.graph.graph_items import GraphOf, Item, Laid
from tcexplore.documents.labels import (
    KernelLabel,
    describe_user_op,
    format_call,
    format_stride,
    format_tensor,
    name_node,
)
from tcexplore.documents.locations import Places
from tcexplore.documents.prose import fold, row, shortened
from tcexplore.events import FxNode
from tcexplore.events.dynamo_events import with_subgraphs
from tcexplore.quantities import count
from tcexplore.session.links import Link, line_link, line_links

HIDDEN = "↑"
"""Mark of a row that reads a value without a line."""

SHOWN_LABELS = 2

SOURCES = ("placeholder", "get_attr")
"""Nodes whose target is the name in the source: `x`, `self.fc1.weight`."""

_WORD = re.compile(r"\w+")


class Columns(NamedTuple):
    """Widths of the columns, fitted to a graph and a pane."""

    gutter: int
    op: int
    kernel: int
    value: int
    line: int
    name: int

    @classmethod
    def of(cls, laid: Laid, labels: Sequence[int], places: Places, width: int) -> Columns:
        """Return the widths that the rows need, limited by the width of the pane."""
        most = 12 if width < 60 else 20
        nodes = [item.nodes[0] for item in laid.items if not item.module and not item.source]
        return cls(
            gutter=_widest(drawn.text for drawn in laid.gutter),
            op=min(_widest(map(name_node, nodes)), most),
            kernel=max(labels, default=0),
            value=min(_widest(format_tensor(node) for node in nodes), most + 4),
            line=_widest(places.abbreviate(node.location) for node in nodes),
            name=min(_widest(node.name for node in nodes), most),
        )


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


class GraphRows:
    """Builder of the rows of one graph."""

    def __init__(self, graph: GraphOf, laid: Laid, places: Places, width: int) -> None:
        self._graph = graph
        self._laid = laid
        nodes = with_subgraphs(tuple(graph.nodes), tuple(graph.subgraphs))
        self._sources = {node.name: node.target for node in nodes if node.op in SOURCES}
        self._places = places
        shown = [sum(len(span.text) for span in self._kernels(item.nodes)) for item in laid.items if not item.module]
        self._opened = {item.nodes[0].name for item, below in pairwise(laid.items) if item.nodes and below.source}
        self._columns = Columns.of(laid, shown, places, width)

    def part(self) -> Part:
        """Return the rows of all nodes but the hidden ones."""
        return Part(len(self._laid.items), lambda index: self._row(self._laid.items[index], self._laid.gutter[index]))

    def hidden(self, opened: bool) -> Iterable[Row]:
        """Yield the fold of the hidden nodes."""
        taken = self._laid.hidden
        if not taken:
            return
        graph = self._graph
        names = ", ".join(node.target for node in taken[:8])
        more = ", …" if len(taken) > 8 else ""
        label = count(1, graph.one) if len(taken) == 1 else f"{len(taken):,} {graph.many}"
        yield fold(hidden_fold(graph), opened, (label, "muted"), (f"  {names}{more}", "dim"), links=self._links(taken))
        for node in taken if opened else ():
            facts = (
                (f"   {node.target}", "node"),
                (f"  {format_tensor(node)}", "shape"),
                (f"  {node.name}" if node.name != node.target else "", "dim"),
            )
            mark = (f"  {graph.marks.get(node.name, '')}", "warn")
            yield row(*facts, mark, links=self._links([node]), copy=node.target)

    def _row(self, item: Item, drawn: Drawn) -> Row:
        if item.source:
            text = Span(f"{drawn.text:<{self._columns.gutter}}  ", "rule")
            line = item.source.location
            links = line_links(line)
            return Row((text, Span(item.source.text, "value")), links, line, copy=item.source.text)
        return self._stretch(item, drawn) if item.module else self._node(item, drawn)

    def _node(self, item: Item, drawn: Drawn) -> Row:
        node = item.nodes[0]
        columns, kernels = self._columns, self._kernels((node,))
        line, steps = self._places.abbreviate(node.location), format_stride(node)
        mark = self._graph.marks.get(node.name, "")
        spans = (
            *self._gutter(drawn, kernels),
            Span(f"{shortened(name_node(node), columns.op):<{columns.op}} ", "node"),
            *_padded(kernels, columns.kernel),
            Span(f" {format_tensor(node):<{columns.value}} ", "shape"),
            Span(f"{line:>{columns.line}}  ", "muted"),
            Span(f"{shortened(node.name, columns.name):<{columns.name}} ", "muted"),
            Span(f"{steps}  " if steps else "", "warn"),
            Span(f"{mark}  " if mark else "", "warn"),
            *self._user_op(item),
            Span(f"{node.op} ", "dim"),
            Span(format_call(node, _WORD.sub(partial(self._source, node), node.args)), "target"),
            Span(f"  {node.module}" if node.module else "", "dim"),
        )
        copied = f"{node.name} = {format_call(node)}"
        return Row(spans, self._links([node]), node.location, item.fold, copy=copied)

    def _user_op(self, item: Item) -> Iterable[Span]:
        """Return `▸ your Triton kernel, line 6`, with an arrow if its definition can be opened."""
        user_op = item.nodes[0].user_op
        if user_op is None:
            return ()
        arrow = ("▾ " if item.nodes[0].name in self._opened else "▸ ") if item.fold else ""
        place = f", {self._places.describe(user_op.location)}" if user_op.location else ""
        return Span(arrow, "key"), Span(f"{describe_user_op(user_op)}{place}  ", "changed")

    def _source(self, node: FxNode, word: re.Match[str]) -> str:
        """Return the name of an argument of a node in the source, if the graph uses another one."""
        path, dot, _ = node.name.rpartition(".")
        return self._sources.get(f"{path}{dot}{word[0]}", word[0])

    def _stretch(self, item: Item, drawn: Drawn) -> Row:
        kernels = self._kernels(item.nodes)
        spans = (
            *self._gutter(drawn, kernels),
            Span("▾ " if item.opened else "▸ ", "key"),
            Span(item.module or "", "heading"),
            Span(f"  {count(len(item.nodes), 'node')}  ", "muted"),
            *kernels,
        )
        return Row(spans, self._links(item.nodes), item.nodes[0].location, item.fold)

    def _gutter(self, drawn: Drawn, kernels: Sequence[Span]) -> Iterable[Span]:
        text = f"{drawn.text:<{self._columns.gutter}}"
        mark = Span(HIDDEN if drawn.hidden else " ", "warn")
        if drawn.node < 0:
            return Span(text, "rule"), mark
        at = drawn.node
        return (
            Span(text[:at], "rule"),
            Span(text[at], kernels[0].style if kernels else "node"),
            Span(text[at + 1 :], "rule"),
            mark,
        )

    def _kernels(self, nodes: Sequence[FxNode]) -> tuple[Span, ...]:
        return kernel_spans(self._of(nodes))

    def _of(self, nodes: Sequence[FxNode]) -> list[KernelLabel]:
        return list(dict.fromkeys(label for node in nodes for label in self._graph.kernels(node)))

    def _links(self, nodes: Sequence[FxNode]) -> tuple[Link, ...]:
        own = (self._graph.link(node) for node in nodes)
        lines = (line_link(node.location) for node in nodes if node.location)
        return (*own, *(label.link for label in self._of(nodes)), *dict.fromkeys(lines))


def hidden_fold(graph: GraphOf) -> str:
    """Return the name of the fold of hidden nodes."""
    return f"hidden of {graph.name}"


def kernel_spans(labels: Sequence[KernelLabel]) -> tuple[Span, ...]:
    """Return the labels of the first kernels, and how many more there are."""
    spans = tuple(span for label in labels[:SHOWN_LABELS] for span in label.spans)
    more = len(labels) - SHOWN_LABELS
    return (*spans, Span(f"+{more}", "muted")) if more > 0 else spans


def _padded(spans: Sequence[Span], width: int) -> tuple[Span, ...]:
    return (*spans, Span(" " * (width - sum(len(span.text) for span in spans))))
