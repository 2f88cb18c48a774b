"""The rows of one graph: its nodes and modules, each with gutter, op, kernel, value, line, name, call by importance."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tcexplore.documents.document import Part, Row, Span, by_identity
from tcexplore.documents.graph.graph_gutter import Drawn, draw_gutter
from tcexplore.documents.labels import (
    KernelLabel,
    Labels,
    describe_user_op,
    format_call,
    format_stride,
    format_tensor,
    name_node,
)
from tcexplore.documents.locations import Places
from tcexplore.documents.module_folds import Block, ModuleFolds, blocks
from tcexplore.documents.prose import fold, row, shortened
from tcexplore.events import AtenGraph, FxNode, GraphCaptured, Location, Subgraph
from tcexplore.events.dynamo_events import with_subgraphs
from tcexplore.quantities import count
from tcexplore.session.links import Link, aten_link, line_link, line_links, node_link
from tcexplore.session.module_tree import Path, name_range

FROM = 200
"""Minimum number of nodes of a graph that is divided into modules if no layer of the model repeats."""

FEWEST = 24
"""Maximum number of rows of a layer that is open at first: the first one of several equal ones."""


Kernels = Callable[[FxNode], Sequence[KernelLabel]]


GLYPHS = {"placeholder": "●", "get_attr": "●", "output": "◎"}
CALL, FOLDED = "○", "◍"


class SourceLine(NamedTuple):
    """A line of the definition of a user's kernel or op."""

    text: str
    location: Location | None


class Item(NamedTuple):
    """One row: a node, the heading of a module or subgraph (`module`), or a line below a node (`source`)."""

    nodes: Sequence[FxNode]
    module: str | None = None
    fold: str | None = None
    opened: bool = False
    """Whether the nodes of the module or subgraph have rows below."""
    depth: int = 0
    """Number of open folds that contain it."""
    note: str = ""
    """What the module is: its class, or which one it equals."""
    differs: str = ""
    """What differs in the module from most of its list."""
    block: Block | None = None
    """The nodes of a module."""
    source: SourceLine | None = None

    @property
    def glyph(self) -> str:
        if self.source:
            return " "
        return FOLDED if self.module else GLYPHS.get(self.nodes[0].op, CALL)


class Laid(NamedTuple):
    """The hidden nodes of a graph, its rows and their gutter."""

    hidden: tuple[FxNode, ...]
    items: list[Item]
    gutter: list[Drawn]


def lay_out_graph(graph: GraphOf, toggled: frozenset[str], columns: int) -> Laid:
    """Return the rows of a graph; the gutter is at most `columns` lines wide."""
    divided = _divide(graph)
    items = list(_items(graph, divided, toggled))
    inputs = _inputs(items, divided.hidden_names)
    return Laid(divided.hidden, items, draw_gutter(inputs, columns, [item.glyph for item in items]))


class Divided(NamedTuple):
    """The nodes of a graph, as any state of its folds shows them."""

    hidden: tuple[FxNode, ...]
    hidden_names: frozenset[str]
    shown: tuple[FxNode, ...]
    blocks: tuple[Block, ...]
    """The shown nodes by module; empty if they are not grouped at first."""


@by_identity(32)
def _divide(graph: GraphOf) -> Divided:
    held = {subgraph.name.rpartition(".")[2] for subgraph in graph.subgraphs}
    nodes = [node for node in graph.nodes if not (node.op == "get_attr" and node.target in held)]
    hidden = tuple(node for node in nodes if graph.hidden(node))
    names = frozenset(node.name for node in hidden)
    shown = tuple(node for node in nodes if node.name not in names)
    by_module = tuple(_blocks(graph, shown, ())) if graph.has_modules else ()
    return Divided(hidden, names, shown, by_module)


def has_folds(graph: GraphOf) -> bool:
    """Return whether there are folds of modules at first."""
    return any(block.path is not None for block in _divide(graph).blocks)


def _blocks(graph: GraphOf, nodes: Sequence[FxNode], outer: Path) -> Iterator[Block]:
    return blocks(nodes, [graph.path(node) for node in nodes], outer, graph.folds)


def _items(graph: GraphOf, divided: Divided, toggled: frozenset[str]) -> Iterable[Item]:
    if graph.grouping(toggled):
        for block in divided.blocks:
            yield from _block_items(graph, block, toggled, 0)
    else:
        for node in divided.shown:
            yield from _node_items(graph, node, toggled)


def _block_items(graph: GraphOf, block: Block, toggled: frozenset[str], depth: int) -> Iterable[Item]:
    if block.path is None:
        for node in block.nodes:
            yield from _node_items(graph, node, toggled)
        return
    fold = f"module{'s' if block.members else ''} {graph.name} {block.nodes[0].name}"
    opened = (fold in toggled) != _opens(graph, block)
    yield Item(block.nodes, _name(graph, block), fold, opened, depth=depth, note=_note(graph, block), block=block,
               differs=graph.folds.odd.get(block.path, "") if graph.folds else "")  # fmt: skip
    if not opened:
        return
    for inner in block.members or _blocks(graph, block.nodes, block.path):
        yield from _block_items(graph, inner, toggled, depth + 1)


def _opens(graph: GraphOf, block: Block) -> bool:
    """Return whether a fold is open at first: of the first one of equal layers, if it has few rows."""
    if graph.folds is None or block.members or block.path not in graph.folds.first:
        return False
    inner = _blocks(graph, block.nodes, block.path or ())
    return sum(1 if part.path else len(part.nodes) for part in inner) <= FEWEST


def _name(graph: GraphOf, block: Block) -> str:
    """Return `layers.3`, or `layers.1 – 31` for several."""
    paths = [member.path for member in block.members if member.path] or [block.path or ()]
    if len(paths) == 1 or graph.folds is None:
        return ".".join(paths[0])
    return name_range(paths)


def _note(graph: GraphOf, block: Block) -> str:
    if graph.folds is None or block.path is None:
        return ""
    same = graph.folds.same.get(block.path)
    if block.members and same is not None:
        return f"×{sum(member.path is not None for member in block.members)} {same.equals}"
    return graph.folds.types.get(block.path, "")


def _node_items(graph: GraphOf, node: FxNode, toggled: frozenset[str]) -> Iterable[Item]:
    """Yield a node, the definition of a user's kernel or op if it is open, and the folds of its subgraphs."""
    user_op = node.user_op
    fold = f"source {graph.name} {node.name}" if user_op and user_op.source else None
    yield Item((node,), fold=fold)
    if user_op and fold in toggled:
        for index, line in enumerate(user_op.source.rstrip().split("\n")):
            at = user_op.location and replace(user_op.location, line=user_op.location.line + index)
            yield Item((), source=SourceLine(line, at))
    yield from _subgraph_items(graph, node.name, toggled)


def _subgraph_items(graph: GraphOf, caller: str, toggled: frozenset[str]) -> Iterable[Item]:
    """Yield the folds of the subgraphs that a node runs, and the nodes of those that are open."""
    for subgraph in graph.subgraphs:
        if subgraph.node != caller:
            continue
        fold = f"subgraph {graph.name} {subgraph.name}"
        calls = [node for node in subgraph.nodes if node.op.startswith("call_")]
        yield Item(calls or subgraph.nodes, subgraph.name, fold, fold in toggled)
        if fold in toggled:
            for node in subgraph.nodes:
                if node.op not in ("output", "get_attr"):
                    yield from _node_items(graph, node, toggled)


def _inputs(items: Sequence[Item], hidden: frozenset[str]) -> list[list[int] | None]:
    """Return the rows that each row reads, in the order of the arguments, None for a heading."""
    row = {node.name: index for index, item in enumerate(items) if not item.opened for node in item.nodes}
    read: list[list[int] | None] = []
    for index, item in enumerate(items):
        if item.source:
            read.append(None)
            continue
        reads = item.block.reads if item.block else (name for node in item.nodes for name in node.inputs)
        names = (name for name in reads if name not in hidden)
        rows = dict.fromkeys(row[name] for name in names if row.get(name, index) != index)
        read.append(None if item.opened else list(rows))
    return read


@dataclass(frozen=True, slots=True)
class GraphOf:
    """A graph of any compiler stage."""

    name: str
    """Name of its folds."""
    nodes: Sequence[FxNode]
    link: Callable[[FxNode], Link]
    """Returns what a node stands for."""
    kernels: Kernels
    """Returns the kernels of a node."""
    hidden: Callable[[FxNode], bool]
    """Returns whether a node is in the fold of hidden nodes."""
    count_hidden: Callable[[Sequence[FxNode]], str]
    """Returns the name of the fold of hidden nodes: `2 inputs`."""
    marks: Mapping[str, str]
    """Notes on nodes by name."""
    subgraphs: Sequence[Subgraph] = ()
    folds: ModuleFolds | None = None
    """The repeated layers of the model."""
    path: Callable[[FxNode], Path] = lambda _: ()
    """Returns the module that runs a node."""

    @property
    def has_modules(self) -> bool:
        """Whether its nodes are in folds of modules at first: a layer repeats, or there are many nodes."""
        return (self.folds is not None and self.folds.repeats) or len(self.nodes) >= FROM

    def grouping(self, toggled: frozenset[str]) -> bool:
        """Return whether its nodes are grouped by module."""
        return self.has_modules and f"grouped {self.name}" not in toggled


def dynamo_graph(graph: GraphCaptured, known: Labels, folds: ModuleFolds) -> GraphOf:
    """Return a Dynamo graph; its parameters are hidden, because their lines would cross every row."""

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_node.get((graph.graph, node.name), ())

    def link(node: FxNode) -> Link:
        return node_link(graph.graph, node.name)

    def path(node: FxNode) -> Path:
        return folds.path_of.get((graph.graph, node.name), ())

    return GraphOf(graph.graph, graph.nodes, link, kernels, is_parameter, _count_parameters, {}, graph.subgraphs, folds,
                   path)  # fmt: skip


def below_dynamo(
    graph: AtenGraph, phases: Mapping[str, str], known: Labels, marks: Mapping[str, str], folds: ModuleFolds
) -> GraphOf:
    """Return a graph of AOTAutograd or Inductor; `phases` has the phase of nodes that differs from the graph's."""

    def phase(node: FxNode) -> str:
        return phases.get(node.name, graph.phase)

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_aten.get((graph.graph, phase(node), node.name), ())

    def link(node: FxNode) -> Link:
        return aten_link(graph.graph, phase(node), node.name)

    name = f"{graph.graph} {graph.stage} {graph.phase}"

    def path(node: FxNode) -> Path:
        paths = (folds.path_of.get((graph.graph, origin)) for origin in node.origins)
        return next((path for path in paths if path is not None), ())

    return GraphOf(
        name, graph.nodes, link, kernels, _is_input, _count_inputs, marks, graph.subgraphs, folds, path
    )  # fmt: skip


def is_parameter(node: FxNode) -> bool:
    """Return whether a node reads an attribute (`self.fc1.weight`), not an argument."""
    return node.op == "get_attr" or (node.op == "placeholder" and "." in node.target)


_SIZE = re.compile(r"\.(?:size|stride)\(\)\[\d+\]$|\.storage_offset\(\)$")


def _count_parameters(nodes: Sequence[FxNode]) -> str:
    """Return `3 parameters and buffers, 1 size`: a symbolic size is an input of its own."""
    sizes = sum(_SIZE.search(node.target) is not None for node in nodes)
    others = len(nodes) - sizes
    parameters = count(others, "parameter") if others == 1 else f"{others:,} parameters and buffers"
    return ", ".join([*([parameters] if others else []), *([count(sizes, "size")] if sizes else [])])


def _is_input(node: FxNode) -> bool:
    return node.op == "placeholder"


def _count_inputs(nodes: Sequence[FxNode]) -> str:
    return count(len(nodes), "input")


# ---- rows


HIDDEN = "↑"
"""Mark of a row that reads a value without a line."""

_MEANINGS = {"placeholder": "input", "get_attr": "attribute", "output": "output"}
"""What the mark of a node means, by its kind."""

_HIDDEN_MEANS = f"{HIDDEN} reads a value whose line is not drawn"

SHOWN_LABELS = 2

MOST_OP, LEAST_OP = 20, 8
"""Most and fewest cells of the column of ops."""

MOST_VALUE, LEAST_VALUE = 24, 11
"""Most and fewest cells of the column of values."""

LEAST_LINE = 5
"""Cells for the number of a line without its file."""

_GAPS = 4
"""Cells between the columns up to the line: the mark of the gutter, and a blank after op, kernel and value."""

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
    compact: bool = False
    """Whether values are without blanks, since they do not fit with them: `f32[4,128,256]`."""

    @classmethod
    def of(cls, laid: Laid, labels: Sequence[int], places: Places, width: int, marks: Collection[str] = ()) -> Columns:
        """Return the widths that the rows need, limited by the width of the pane.

        The names of ops give way first, then those of other files, then blanks in values, then values.
        """
        nodes = [item.nodes[0] for item in laid.items if not item.module and not item.source]
        gutter, kernel = _widest(drawn.text for drawn in laid.gutter), max(labels, default=0)
        ops = min(_widest(map(name_node, nodes)), MOST_OP)
        lines = _widest(places.abbreviate(node.location) for node in nodes)
        room = width - gutter - kernel - _GAPS - (_widest(marks) + 2 if marks else 0)
        name = min(_widest(node.name for node in nodes), MOST_OP)
        for compact in (False, True):
            widest = _widest(_value(node, compact=compact) for node in nodes)
            value = min(widest, MOST_VALUE)
            op = min(ops, max(LEAST_OP, room - value - lines))
            line = min(lines, max(LEAST_LINE, room - value - op))
            value = min(value, max(LEAST_VALUE, room - op - line))
            if value == widest:
                break
        return cls(gutter, op, kernel, value, line, name, compact)


def _value(node: FxNode, *, compact: bool) -> str:
    text = format_tensor(node)
    return text.replace(", ", ",") if compact else text


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
        self._columns = Columns.of(laid, shown, places, width, graph.marks.values())

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
        label = graph.count_hidden(taken)
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
        steps = format_stride(node)
        mark = self._graph.marks.get(node.name, "")
        kept = (
            *self._gutter(drawn, kernels),
            Span(f"{shortened(name_node(node), columns.op):<{columns.op}} ", "node"),
            *_padded(kernels, columns.kernel),
            Span(f" {shortened(_value(node, compact=columns.compact), columns.value):<{columns.value}} ", "shape"),
            Span(f"{self._line(node):>{columns.line}}", "muted"),
            Span(f"  {mark}" if mark else "", "warn"),
        )
        rest = (
            Span("  "),
            Span(f"{shortened(node.name, columns.name):<{columns.name}} ", "muted"),
            Span(f"{steps}  " if steps else "", "warn"),
            *self._user_op(item),
            Span(f"{node.op} ", "dim"),
            Span(format_call(node, _WORD.sub(partial(self._source, node), node.args)), "target"),
            Span(f"  {node.module}" if node.module else "", "dim"),
        )
        copied = f"{node.name} = {format_call(node)}"
        meaning = f"{item.glyph} {_MEANINGS.get(node.op, 'op')}{f', {_HIDDEN_MEANS}' if drawn.hidden else ''}"
        return Row((*kept, *rest), self._links([node]), node.location, item.fold, copy=copied, kept=len(kept),
                   meaning=meaning)  # fmt: skip

    def _line(self, node: FxNode) -> str:
        """Return the line of a node; of another file only its number if its name has no room."""
        line = self._places.abbreviate(node.location)
        return line if len(line) <= self._columns.line else f":{line.rpartition(':')[2]}"

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
        kernels = kernel_spans(_kernels_of(self._graph, item.block)) if item.block else self._kernels(item.nodes)
        kept = (
            *self._gutter(drawn, kernels),
            Span("  " * item.depth + ("▾ " if item.opened else "▸ "), "key"),
            Span(item.module or "", "changed" if item.differs else "heading"),
            Span(f"  differs: {item.differs}" if item.differs else "", "changed"),
        )
        note = Span(f"  {item.note}" if item.note else "", "muted")
        rest = (note, Span(f"  {count(len(item.nodes), 'node')}  ", "muted"), *kernels)
        # Of several equal modules, the row selects the first one.
        first = item.block.members[0].nodes if item.block and item.block.members else item.nodes
        hides = _node_links(self._graph, item.block) if item.block and not item.opened else ()
        inside = None if item.opened else partial(_text_inside, item.nodes)
        return Row((*kept, *rest), self._links(first), item.nodes[0].location, item.fold, hides=hides, inside=inside,
                   kept=len(kept), meaning=f"{FOLDED} module: one mark for all of its nodes")  # fmt: skip

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


@by_identity(1024)
def _kernels_of(graph: GraphOf, block: Block) -> Sequence[KernelLabel]:
    return list(dict.fromkeys(label for node in block.nodes for label in graph.kernels(node)))


@by_identity(1024)
def _node_links(graph: GraphOf, block: Block) -> tuple[Link, ...]:
    return tuple(graph.link(node) for node in block.nodes)


def _text_inside(nodes: Iterable[FxNode]) -> str:
    return "\n".join(f"{node.name} {format_tensor(node)} {format_call(node)} {node.module or ''}" for node in nodes)


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
