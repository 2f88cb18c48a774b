"""The AOT view: the ATen graphs, tensors saved for the backward, buffer reuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Part, Parts, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.graph.graph_items import GraphOf, below_dynamo
from tcexplore.documents.graph.graph_view import graph_parts
from tcexplore.documents.graph.memory_rows import buffer_reuse_rows, saved_marks, saved_tensor_rows
from tcexplore.documents.labels import labels
from tcexplore.documents.locations import places
from tcexplore.documents.memo import by_identity
from tcexplore.documents.prose import BLANK, fold
from tcexplore.events import AtenGraph
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.graph_stages import in_order, node_phases

TEACHES = (
    "AOTAutograd turns each Dynamo graph into ATen ops: one inference graph, or a joint graph that is partitioned into "
    "a forward and a backward. The graphs appear here, with the tensors saved for the backward."
)

STAGES = {
    "joint": "forward and backward together",
    "inference": "the Dynamo graph in ATen ops",
    "forward": "the forward half of the joint graph",
    "backward": "the backward half of the joint graph",
    "post_grad": "after all Inductor passes, the input of the scheduler",
}


def aot_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    facts = (ev.RunFact.AOT_GRAPHS, ev.RunFact.AOT_INFERENCE_GRAPH, ev.RunFact.POST_GRAD_GRAPH)
    missing = fixed(missing_rows(snapshot, facts, width))
    if not snapshot.code.aten_graphs:
        return Parts("", [empty_part(snapshot, width, TEACHES), missing])
    graphs = in_order(snapshot.code.aten_graphs)
    parts = [missing]
    for graph_id in dict.fromkeys(graph.graph for graph in graphs):
        parts += _compile(snapshot, graph_id, [g for g in graphs if g.graph == graph_id], toggled, width)
    return Parts(count(len(graphs), "graph"), parts)


def _compile(
    snapshot: Snapshot, graph_id: str, stages: list[AtenGraph], toggled: frozenset[str], width: int
) -> Iterable[Part]:
    for graph in stages:
        yield from _stage(snapshot, graph, toggled, width)
    yield fixed(saved_tensor_rows(snapshot, graph_id, toggled, width))
    yield fixed(buffer_reuse_rows(snapshot, graph_id, toggled, width))
    yield fixed([BLANK])


def _stage(snapshot: Snapshot, graph: AtenGraph, toggled: frozenset[str], width: int) -> Iterable[Part]:
    name = f"stage {graph.graph} {graph.stage} {graph.phase}"
    opened = name in toggled
    yield fixed([_heading(graph, name, opened)], f"{graph.graph} {_called(graph)}")
    if opened:
        yield from graph_parts(_of(snapshot, graph), toggled, places(snapshot.file), width)


def _heading(graph: AtenGraph, name: str, opened: bool) -> Row:
    ops = count(sum(node.op.startswith("call_") for node in graph.nodes), "op")
    facts = f"  {ops}  {STAGES.get(graph.stage, '')}"
    return fold(name, opened, (f"{graph.graph} ", "title"), (_called(graph), "heading"), (facts, "muted"), indent=0)


def _called(graph: AtenGraph) -> str:
    return graph.stage if graph.stage != "post_grad" else f"post-grad {graph.phase}"


def _of(snapshot: Snapshot, graph: AtenGraph) -> GraphOf:
    known = labels(snapshot)
    phases = _phases(snapshot.code.aten_graphs, graph)
    return _made(graph, phases, known, saved_marks(snapshot, graph.graph, graph.stage))


@by_identity(8)
def _phases(graphs: tuple[AtenGraph, ...], graph: AtenGraph) -> Mapping[str, str]:
    return node_phases(graphs, graph)


_made = by_identity(32)(below_dynamo)
