"""The graph pane: the Dynamo graphs in the order of execution, op by op, with the breaks between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len

from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.graph.graph_rows import (
    GraphOf,
    GraphRows,
    dynamo_graph,
    has_folds,
    hidden_fold,
    is_parameter,
    lay_out_graph,
)
from tcexplore.documents.guards.recompile_rows import name_carried
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.documents.labels import labels, name_node
from tcexplore.documents.line_facts import broken_expression
from tcexplore.documents.locations import Places, describe_frame, explain_compile_id, places
from tcexplore.documents.module_folds import module_folds
from tcexplore.documents.prose import fold, row, shortened, wrapped
from tcexplore.events import FxNode, GraphBreak, GraphCaptured
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import idle_graphs
from tcexplore.session.links import break_link, line_link, line_links, node_link

_ASSIGNED = re.compile(r"\s*(\w+)(?:: \"[^\"]*\")? = ")


NARROW = 60
"""Columns below which a break between two graphs has fewer words."""

RULE = "──── "

EMPTY_TEXT = (
    "Each op that Dynamo captures appears here with the dtype and shape of its value, its source line and its kernel. "
    "Lines on the left show which op reads which."
)


def graph_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    where = places(snapshot.file)
    order = order_breaks(snapshot.graphs, snapshot.breaks)
    parts = [fixed(op_check_rows(snapshot, width, passed=False))]
    for index, captured in enumerate(snapshot.graphs):
        parts.append(fixed(_breaks(order.before.get(index, ()), where, width)))
        parts += _graph(snapshot, captured, toggled, width)
        parts.append(fixed(_breaks(order.after.get(index, ()), where, width)))
    return Parts(graph_title(snapshot), [*parts, fixed(_breaks(order.rest, where, width))])


def graph_title(snapshot: Snapshot) -> str:
    """Return `2 graphs, 7 ops`."""
    ops = count(sum(captured.ops for captured in snapshot.graphs), "op")
    return f"{count(len(snapshot.graphs), 'graph')}, {ops}" if snapshot.graphs else ""


def _graph(snapshot: Snapshot, captured: GraphCaptured, toggled: frozenset[str], width: int) -> Iterable[Part]:
    # A graph of a layer that equals an earlier one is closed at first.
    path = tuple(captured.module.split(".")) if captured.module else ()
    same = module_folds(snapshot).same.get(path)
    opened = (f"graph {captured.graph}" not in toggled) != (same is not None)
    heading = graph_heading(snapshot, captured, opened)
    if same is not None:
        note = Span(f"  {captured.module} {same.equals}", "muted")
        kept = heading.kept or 0
        heading = heading._replace(spans=(*heading.spans[:kept], note, *heading.spans[kept:]))
    yield fixed([heading], f"graph {captured.graph}")
    if opened:
        graph = _of(captured, labels(snapshot), module_folds(snapshot))
        yield from graph_parts(graph, toggled, places(snapshot.file), width)


def graph_parts(graph: GraphOf, toggled: frozenset[str], where: Places, width: int) -> tuple[Part, Part, Part]:
    """Return the switch of the grouping by module, the fold of the hidden nodes, and the rows of a graph."""
    made = _rows(graph, toggled, where, width)
    return fixed(_grouping(graph, toggled)), fixed(made.hidden(hidden_fold(graph) in toggled)), made.part()


def _grouping(graph: GraphOf, toggled: frozenset[str]) -> Iterator[Row]:
    """Yield the row that opens all modules at once, and groups the nodes again."""
    if has_folds(graph):
        grouped = graph.grouping(toggled)
        text = "grouped by module: opens all nodes" if grouped else "all nodes: closes to group them by module"
        yield fold(f"grouped {graph.name}", not grouped, (text, "muted"), keys_only=True)


_of = by_identity(32)(dynamo_graph)


@by_identity(32)
def _rows(graph: GraphOf, toggled: frozenset[str], where: Places, width: int) -> GraphRows:
    return GraphRows(graph, lay_out_graph(graph, toggled, columns=max(4, min(12, width // 9))), where, width)


def graph_heading(snapshot: Snapshot, captured: GraphCaptured, opened: bool) -> Row:
    """Return the first row of a graph: compile id, number of ops, frame, and the reason if it is a recompile."""
    taken = [node for node in captured.nodes if node.op == "placeholder" and not is_parameter(node)]
    frame = captured.frame
    function = describe_frame(captured.graph, frame, places(snapshot.file).describe(frame))
    facts = [*filter(None, [count(captured.ops, "op"), function]), count(len(taken), "input")]
    again = next((recompile for recompile in snapshot.recompiles if recompile.graph == captured.graph), None)
    why = f"  ↻ recompiled: {name_carried(again.failed_guard) or again.reason}" if again else ""
    if captured.graph in idle_graphs(snapshot):
        facts.append("the measured call does not run it")
    ops = "" if opened else f"  {_op_names(captured)}"
    return fold(
        f"graph {captured.graph}", opened, (f"graph {captured.graph}", "title"), (why, "recompile"),
        rest=((f"  {' · '.join(facts)}", "muted"), (ops, "")), location=frame, links=line_links(frame), indent=0,
        meaning=explain_compile_id(captured.graph),
    )  # fmt: skip


def _op_names(captured: GraphCaptured) -> str:
    """Return the names of the ops in their order, a repeated one with its number: `linear ×2, gelu`."""
    names = Counter(
        name_node(node) for node in captured.nodes if node.op in ("call_function", "call_method", "call_module")
    )
    return ", ".join(f"{name} ×{number}" if number > 1 else name for name, number in names.items())


def _breaks(breaks: Iterable[GraphBreak], where: Places, width: int) -> Iterable[Row]:
    for graph_break in breaks:
        place = where.describe(graph_break.location) or "an unknown line"
        lead = f"✖ break at {place}: " if width >= NARROW else f"✖ {place}: "
        room = width - len(RULE) - cell_len(lead)
        code = graph_break.code or graph_break.reason
        if cell_len(code) > room and graph_break.code:
            code = shortened(broken_expression(graph_break), room)
        yield row((RULE, "rule"), (lead, "break"), code, rest=((f" {RULE}", "rule"),), location=graph_break.location,
                  links=(break_link(graph_break),))  # fmt: skip


class Between(NamedTuple):
    """The breaks before and after each graph, by its index; `rest` are those without a graph."""

    before: dict[int, list[GraphBreak]]
    after: dict[int, list[GraphBreak]]
    rest: list[GraphBreak]


def order_breaks(graphs: Sequence[GraphCaptured], breaks: Sequence[GraphBreak]) -> Between:
    """Return the breaks after the graphs that they end, or else before the graphs that they begin."""
    order = Between({}, {}, [])
    for graph_break in breaks:
        ended, begun = _ended(graphs, graph_break), _begun(graphs, graph_break)
        if ended is not None:
            order.after.setdefault(ended, []).append(graph_break)
        elif begun is not None:
            order.before.setdefault(begun, []).append(graph_break)
        else:
            order.rest.append(graph_break)
    return order


def _ended(graphs: Sequence[GraphCaptured], graph_break: GraphBreak) -> int | None:
    """Return the graph that a break ends: the last one of its function that begins above the line of the break.

    A function resumed after a break is a frame that begins on the line of that break. If the function is unknown,
    return the graph with the id of the break.
    """
    above = [
        (line, -index)
        for index, line in _starts(graphs, graph_break)
        if graph_break.location and line < graph_break.location.line
    ]
    if above:
        return -max(above)[1]
    same = (index for index, graph in enumerate(graphs) if graph.graph == graph_break.graph)
    return None if graph_break.location and graph_break.location.function else next(same, None)


def _begun(graphs: Sequence[GraphCaptured], graph_break: GraphBreak) -> int | None:
    on = (
        index
        for index, line in _starts(graphs, graph_break)
        if graph_break.location and line == graph_break.location.line
    )
    return next(on, None)


def _starts(graphs: Sequence[GraphCaptured], graph_break: GraphBreak) -> list[tuple[int, int]]:
    """Return the graphs of the function with the break, by their index, and the first line of each frame."""
    at = graph_break.location
    frames = ((index, graph.frame) for index, graph in enumerate(graphs))
    return [(i, f.line) for i, f in frames if f and at and (f.file, f.function) == (at.file, at.function)]


def readable_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    parts: list[Part] = []
    for captured in snapshot.graphs:
        opened = f"graph {captured.graph}" not in toggled
        parts.append(fixed([graph_heading(snapshot, captured, opened)], f"graph {captured.graph}"))
        parts += [_code(captured)] if opened else []
    return Parts(graph_title(snapshot), parts)


def _code(captured: GraphCaptured) -> Part:
    text = highlighted(captured.code, "python")
    nodes = {node.name: node for node in captured.nodes}
    return Part(len(text.lines), partial(_row, text, captured.graph, nodes))


def _row(text: Highlighted, graph: str, nodes: Mapping[str, FxNode], index: int) -> Row:
    """Return the row of a statement; torch names its variable like the node."""
    line = text.lines[index]
    assigned = _ASSIGNED.match(line)
    node = nodes.get(assigned[1]) if assigned else None
    own = (node_link(graph, node.name),) if node else ()
    place = node.location if node else None
    links = (*own, line_link(place)) if place else own
    return Row((Span(" "), *text.raw(index)), links, place, copy=line)


def op_check_rows(snapshot: Snapshot, width: int, *, passed: bool = True) -> Iterator[Row]:
    """Yield a row for each test that failed with its reason, and, if `passed`, for each op with passed tests."""
    where = places(snapshot.file)
    for check in snapshot.op_checks:
        if check.passed:
            continue
        place = f" ({where.describe(check.location)})" if check.location else ""
        links = line_links(check.location)
        verb = "fails" if check.test != "fake implementation" else "has a stale fake implementation"
        test = f" {check.test}" if check.test != "fake implementation" else ""
        text = f"{check.op} {verb}{test}{place}: {check.reason}"
        yield from wrapped(text, width, "break", lead="✖ ", location=check.location, links=links)
    for op in dict.fromkeys(check.op for check in snapshot.op_checks) if passed else ():
        tests = [check.test for check in snapshot.op_checks if check.op == op and check.passed]
        if tests:
            yield row((" ✔ ", "ok"), f"{op}  ", (", ".join(tests), "muted"))
