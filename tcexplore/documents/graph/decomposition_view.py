"""The decomposition of each op of user code: Dynamo node → ATen nodes → statements of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.graph.graph_rows import kernel_spans
from tcexplore.documents.highlight import highlighted
from tcexplore.documents.labels import KernelLines, Labels, format_call, format_tensor, labels, name_node
from tcexplore.documents.line_facts import read_lines
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import fold, row
from tcexplore.events import Kernel, Location
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.code import lowest
from tcexplore.session.links import aten_link, kernel_link, line_links, node_link

Line = tuple[str, int]
"""File and line number."""

_CALLS = ("call_function", "call_method", "call_module")


class Statement(NamedTuple):
    """Line `n` (1-based) of a kernel's source."""

    kernel: ev.Kernel
    n: int


class Lowered(NamedTuple):
    """A node of the last known stage below Dynamo's, with its kernels and statements.

    A node without kernels does no work, such as a view, or its kernels are unknown.
    """

    graph: str
    phase: str
    node: ev.FxNode
    kernels: tuple[ev.Kernel, ...]
    statements: tuple[Statement, ...]


class Op(NamedTuple):
    """An op of a Dynamo graph and the nodes that it was lowered to."""

    graph: str
    node: ev.FxNode | None
    """None for nodes without a known Dynamo node."""
    lowered: tuple[Lowered, ...]
    """Forward and backward."""


class Decomposition:
    """Ops of a run by line of user code.

    `lines` is in the order of the graphs; the key None has the ops of unknown line.
    """

    def __init__(
        self, graphs: Iterable[ev.GraphCaptured], aten: Iterable[ev.AtenGraph], kernels: Iterable[ev.Kernel]
    ) -> None:
        self._kernels: dict[tuple[str, str, str], list[ev.Kernel]] = {}
        self._statements: dict[tuple[str, str, str], list[Statement]] = {}
        for kernel in kernels:
            self._kernel(kernel)
        self._of: dict[tuple[str, str], list[Lowered]] = {}
        self.lines: dict[Line | None, list[Op]] = {}
        rootless = [lowered for graph in lowest(aten) for lowered in self._lower(graph)]
        for graph in graphs:
            for node in graph.all_nodes:
                if node.op in _CALLS:
                    lowered = tuple(self._of.get((graph.graph, node.name), ()))
                    self.lines.setdefault(_line_of(node), []).append(Op(graph.graph, node, lowered))
        for line, graph_id, several in _by_line(rootless):
            self.lines.setdefault(line, []).append(Op(graph_id, None, tuple(several)))

    def _kernel(self, kernel: ev.Kernel) -> None:
        for name in kernel.nodes:
            self._kernels.setdefault((kernel.graph, kernel.phase, name), []).append(kernel)
        for line in kernel.lines:
            for name in line.nodes:
                of = self._statements.setdefault((kernel.graph, kernel.phase, name), [])
                of.append(Statement(kernel, line.n))

    def _lower(self, graph: ev.AtenGraph) -> Iterable[Lowered]:
        """Record the lowered nodes of each Dynamo node, and yield those without one."""
        for node in graph.all_nodes:
            if node.op not in _CALLS:
                continue
            key = graph.graph, graph.phase, node.name
            kernels, statements = self._kernels.get(key, ()), self._statements.get(key, ())
            lowered = Lowered(graph.graph, graph.phase, node, tuple(kernels), tuple(statements))
            for origin in node.origins:
                self._of.setdefault((graph.graph, origin), []).append(lowered)
            if not node.origins:
                yield lowered


def _line_of(node: ev.FxNode) -> Line | None:
    return (node.location.file, node.location.line) if node.location else None


def _by_line(rootless: Iterable[Lowered]) -> Iterable[tuple[Line | None, str, list[Lowered]]]:
    groups: dict[tuple[Line | None, str], list[Lowered]] = {}
    for lowered in rootless:
        groups.setdefault((_line_of(lowered.node), lowered.graph), []).append(lowered)
    return ((line, graph, several) for (line, graph), several in groups.items())


def count_lowered(ops: Iterable[Op]) -> Mapping[str, int]:
    """Count ops, and their nodes, kernels and statements."""
    known = list(ops)
    lowered = {(low.graph, low.phase, low.node.name): low for op in known for low in op.lowered}
    kernels = {(k.graph, k.phase, k.name) for low in lowered.values() for k in low.kernels}
    statements = {
        (s.kernel.graph, s.kernel.phase, s.kernel.name, s.n) for low in lowered.values() for s in low.statements
    }
    return {"ops": len(known), "nodes": len(lowered), "kernels": len(kernels), "statements": len(statements)}


# ---- the view


EMPTY_TEXT = (
    "Each source line appears here with the ops that it calls, under each op its ATen ops, and under those the "
    "statements of the kernels that compute them."
)


def decomposition_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view: every source line, closed at first."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    return _document(snapshot, decompose_run(snapshot).lines, toggled)


_made = by_identity(2)(Decomposition)
_texts = by_identity(8)(read_lines)
_counted = by_identity(1024)(count_lowered)


def decompose_run(snapshot: Snapshot) -> Decomposition:
    """Return the decomposition of a run, cached for the newest runs."""
    return _made(snapshot.graphs, snapshot.code.aten_graphs, snapshot.code.kernels)


def _document(snapshot: Snapshot, lines: Mapping[Line | None, Sequence[Op]], toggled: frozenset[str]) -> Parts:
    rows = Lowering(labels(snapshot), places(snapshot.file), toggled)
    ordered = sorted(lines.items(), key=lambda item: _order(snapshot, item[0]))
    parts = [part for line, ops in ordered for part in _line(snapshot, line, ops, rows)]
    return Parts(f"{count(sum(map(len, lines.values())), 'op')} on {count(len(lines), 'line')}", parts)


def _order(snapshot: Snapshot, line: Line | None) -> tuple[bool, bool, str, int]:
    """Return the sort key of a line: the model file first, then other files, unknown lines last."""
    return (True, True, "", 0) if line is None else (False, line[0] != snapshot.file, *line)


def _line(snapshot: Snapshot, line: Line | None, ops: Sequence[Op], rows: Lowering) -> Iterable[Part]:
    name = f"line {line[0]} {line[1]}" if line else "no line"
    opened = rows.is_open(name)
    title = places(snapshot.file).describe(Location(*line)) if line else "unknown line"
    yield Part(1, lambda _: _heading(snapshot, line, ops, name, opened), title)
    if opened:
        yield fixed(_ops(ops, rows))


def _ops(ops: Sequence[Op], rows: Lowering) -> Iterator[Row]:
    for op in ops:
        yield from rows.op(op)


def _heading(snapshot: Snapshot, line: Line | None, ops: Sequence[Op], name: str, opened: bool) -> Row:
    total = _counted(ops)
    totals = [count(total["ops"], "op"), count(total["nodes"], "ATen op")]
    totals += [count(total["statements"], "statement")] if labels(snapshot).statements_known else []
    facts = (f"  {' → '.join(totals)}", "muted")
    if line is None:
        return fold(name, opened, ("unknown line", "heading"), facts, indent=0)
    at = Location(*line)
    where = str(line[1]) if line[0] == snapshot.file else places(snapshot.file).describe(at)
    text = _texts(snapshot, line[0]).get(line[1], "").strip()
    code = ((span.text, span.style) for span in highlighted(text, "python").raw(0))
    return fold(name, opened, (f"{where}  ", "title"), *code, facts, indent=0, location=at, links=line_links(at))


class Lowering:
    """Builder of the rows of ops."""

    def __init__(self, known: Labels, where: Places, toggled: frozenset[str]) -> None:
        self._known = known
        self._where = where
        self._toggled = toggled

    def is_open(self, name: str, *, at_first: bool = False) -> bool:
        """Return whether the fold is open."""
        return (name in self._toggled) != at_first

    def op(self, op: Op) -> Iterator[Row]:
        """Yield an op, its ATen ops and their statements."""
        if op.node is None:
            yield row(("   without a known Dynamo op", "muted"))
            yield from self._nodes(op, "no op")
            return
        node = op.node
        name = f"op {op.graph} {node.name}"
        opened = self.is_open(name, at_first=True)
        module = f"  {node.module}" if node.module else ""
        total = count_lowered([op])
        became = f"  → {count(total['nodes'], 'ATen op')}" if op.lowered else "  no ATen op known"
        places = line_links(node.location)
        yield fold(
            name, opened, (name_node(node), "node"), (module, "dim"), (f"  {format_tensor(node)}", "shape"),
            (became, "muted"), (f"  {op.graph}", "dim"), indent=2, links=(node_link(op.graph, node.name), *places),
            location=node.location, copy=f"{node.name} = {format_call(node)}",
        )  # fmt: skip
        if opened:
            yield from self._nodes(op, name)

    def _nodes(self, op: Op, name: str) -> Iterator[Row]:
        phases = {low.phase for low in op.lowered}
        for low in op.lowered:
            yield from self._lowered(low, name, several=len(phases) > 1)

    def _lowered(self, low: Lowered, under: str, *, several: bool) -> Iterator[Row]:
        node, name = low.node, f"{under} {low.phase} {low.node.name}"
        phase = (f"{low.phase:<9}" if several else "", "muted")
        link = aten_link(low.graph, low.phase, node.name)
        kernels = tuple(kernel_link(kernel) for kernel in low.kernels)
        shown = [self._known.kernel[kernel] for kernel in kernels]
        spans = (
            phase, (f"{node.name} ", "node"), *kernel_spans(shown), (f"  {format_tensor(node)}", "shape"),
            (f"  {format_call(node)}", "target"), (f"  {self._fate(low)}", "muted"),
        )  # fmt: skip
        more: dict[str, Any] = {
            "links": (link, *kernels),
            "location": node.location,
            "copy": f"{node.name} = {format_call(node)}",
        }
        if not low.statements:
            yield row(("      ", ""), *spans, **more)
            return
        opened = self.is_open(name)
        yield fold(name, opened, *spans, indent=4, **more)
        if opened:
            yield from (_statement(statement, self._known) for statement in low.statements)

    def _fate(self, low: Lowered) -> str:
        if low.statements:
            return count(len(low.statements), "statement")
        if not all(kernel.generated for kernel in low.kernels):
            return "extern call"
        return "" if low.kernels or not self._known.statements_known else "no separate statement"


def _statement(statement: Statement, known: Labels) -> Row:
    made = _rows(statement.kernel, known).row(statement.n - 1)
    return Row((Span("       "), *_trimmed(made.spans)), made.links, made.location, copy=made.copy)


def _trimmed(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the statement without its indentation."""
    begun = False
    for span in spans:
        code = span.style.startswith("code.")
        yield Span(span.text.lstrip(" "), span.style) if code and not begun else span
        begun = begun or code


@by_identity(512)
def _rows(kernel: Kernel, known: Labels) -> KernelLines:
    return KernelLines(kernel, known)
