"""The FX graph pane: every Dynamo graph in the order of execution, op by op, with the breaks between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Part, Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.frames_text import describe_frame
from tcexplore.documents.graph.break_order import between
from tcexplore.documents.graph.graph_basis import GraphOf, dynamo_graph, is_parameter
from tcexplore.documents.graph.graph_items import lay_out
from tcexplore.documents.graph.graph_rows import GraphRows, hidden_fold
from tcexplore.documents.labels import labels
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.memo import by_identity
from tcexplore.documents.node_text import name_node
from tcexplore.documents.prose import fold, row
from tcexplore.events import GraphBreak, GraphCaptured
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import break_link, line_link

TEACHES = (
    "Each op that Dynamo captured will stand here on a row of its own, with its value's dtype and shape, the line it "
    "came from and the kernel it ended in; lines on the left show which op reads which."
)


def graph_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the pane."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, TEACHES)])
    where = places(snapshot.file)
    order = between(snapshot.graphs, snapshot.breaks)
    parts: list[Part] = []
    for index, captured in enumerate(snapshot.graphs):
        parts.append(fixed(_breaks(order.before.get(index, ()), where)))
        parts += _graph(snapshot, captured, toggled, width)
        parts.append(fixed(_breaks(order.after.get(index, ()), where)))
    return Parts(title(snapshot), [*parts, fixed(_breaks(order.rest, where))])


def title(snapshot: Snapshot) -> str:
    """`2 graphs, 7 ops`."""
    ops = count(sum(captured.ops for captured in snapshot.graphs), "op")
    return f"{count(len(snapshot.graphs), 'graph')}, {ops}" if snapshot.graphs else ""


def _graph(snapshot: Snapshot, captured: GraphCaptured, toggled: frozenset[str], width: int) -> Iterable[Part]:
    opened = f"graph {captured.graph}" not in toggled
    yield fixed([heading(snapshot, captured, opened)], f"graph {captured.graph}")
    if opened:
        yield from rows(_of(captured, labels(snapshot)), toggled, places(snapshot.file), width)


def rows(graph: GraphOf, toggled: frozenset[str], where: Places, width: int) -> tuple[Part, Part]:
    """What a graph does not show a row each of, and its rows."""
    made = _rows(graph, toggled, where, width)
    return fixed(made.hidden(hidden_fold(graph) in toggled)), made.part()


_of = by_identity(32)(dynamo_graph)


@by_identity(32)
def _rows(graph: GraphOf, toggled: frozenset[str], where: Places, width: int) -> GraphRows:
    return GraphRows(graph, lay_out(graph, toggled, columns=max(4, min(12, width // 9))), where, width)


def heading(snapshot: Snapshot, captured: GraphCaptured, opened: bool) -> Row:
    """The first row of a graph: its compile id, its ops, its frame, and why it was compiled again where it was."""
    taken = [node for node in captured.nodes if node.op == "placeholder" and not is_parameter(node)]
    facts = [count(captured.ops, "op"), count(len(taken), "input")]
    frame = captured.frame
    facts += filter(None, [describe_frame(captured.graph, frame, places(snapshot.file).describe(frame))])
    again = next((found for found in snapshot.recompiles if found.graph == captured.graph), None)
    why = f"  ↻ recompiled: {again.failed_guard or again.reason}" if again else ""
    ops = "" if opened else f"  {_op_names(captured)}"
    return fold(
        f"graph {captured.graph}", opened, (captured.graph, "title"), (f"  {' · '.join(facts)}", "muted"),
        ops, (why, "recompile"), location=frame, links=(line_link(frame),) if frame else (), indent=0,
    )  # fmt: skip


def _op_names(captured: GraphCaptured) -> str:
    """Return the names of the ops in their order, a repeated one with its number: `linear ×2, gelu`."""
    names = Counter(
        name_node(node) for node in captured.nodes if node.op in ("call_function", "call_method", "call_module")
    )
    return ", ".join(f"{name} ×{number}" if number > 1 else name for name, number in names.items())


def _breaks(breaks: Iterable[GraphBreak], where: Places) -> Iterable[Row]:
    for found in breaks:
        place = where.describe(found.location) or "a place torch does not name"
        said = (f"✖ break at {place}", "break"), f": {found.code or found.reason}"
        yield row(("──── ", "rule"), *said, (" ────", "rule"), location=found.location, links=(break_link(found),))
