"""The AOT view: the ATen graphs, tensors saved for the backward, buffer reuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tcexplore import events as ev
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.graph.graph_rows import GraphOf, below_dynamo
from tcexplore.documents.graph.graph_view import graph_parts
from tcexplore.documents.labels import Labels, format_call, format_tensor, labels
from tcexplore.documents.locations import places
from tcexplore.documents.module_folds import module_folds
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import AtenGraph, FxNode, Kernel, Partitioned, SavedTensor, Wrapper
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.code import in_order, node_phases
from tcexplore.session.links import Link, aten_link, kernel_link, line_links

EMPTY_TEXT = (
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
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT), missing])
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
    return _made(graph, phases, known, saved_marks(snapshot, graph.graph, graph.stage), module_folds(snapshot))


@by_identity(8)
def _phases(graphs: tuple[AtenGraph, ...], graph: AtenGraph) -> Mapping[str, str]:
    return node_phases(graphs, graph)


_made = by_identity(32)(below_dynamo)


# ---- tensors saved for the backward, buffer reuse


def saved_tensor_rows(snapshot: Snapshot, graph: str, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the rows on the partition of a graph, nothing if there is none."""
    for cut in snapshot.code.partitions:
        if cut.graph == graph:
            nodes = _nodes(snapshot, graph)
            yield from _saved(snapshot, cut, nodes, toggled)
            yield from _recomputed(snapshot, cut, nodes, toggled, width)


def saved_marks(snapshot: Snapshot, graph: str, stage: str) -> Mapping[str, str]:
    """Return the notes on nodes in the graphs of a partition."""
    cut = next((p for p in snapshot.code.partitions if p.graph == graph), None)
    return {} if cut is None or stage not in ("forward", "backward") else _marks(cut, stage)


@by_identity(8)
def _marks(cut: Partitioned, stage: str) -> Mapping[str, str]:
    saved = {tensor.name: "saved" for tensor in cut.saved if not tensor.input and stage == "forward"}
    return saved | dict.fromkeys(cut.recomputed, "recomputed" if stage == "backward" else "recomputed later")


def _saved(snapshot: Snapshot, cut: Partitioned, nodes: dict[str, FxNode], toggled: frozenset[str]) -> Iterator[Row]:
    made = [saved for saved in cut.saved if not saved.input]
    taken = [saved for saved in cut.saved if saved.input]
    name = f"saved {cut.graph}"
    opened = name not in toggled
    total = sum(saved.bytes or 0 for saved in made)
    unknown = sum(saved.bytes is None for saved in made)
    more = f" and {unknown} of unknown size" if unknown else ""
    facts = f"  {count(len(made), 'value')}, {size(total)} by their shapes{more}"
    yield fold(name, opened, ("saved for the backward", "heading"), (facts, "muted"), indent=1)
    if opened:
        largest = sorted(made, key=lambda saved: -(saved.bytes or 0))
        yield from (_value(snapshot, cut.graph, saved, nodes.get(saved.name)) for saved in largest)
        if taken:
            yield from _inputs(snapshot, cut.graph, taken, nodes, toggled)


def _inputs(
    snapshot: Snapshot, graph: str, taken: list[SavedTensor], nodes: dict[str, FxNode], toggled: frozenset[str]
) -> Iterator[Row]:
    name = f"saved inputs {graph}"
    opened = name in toggled
    label = (f"{count(len(taken), 'input')} also saved, at no extra cost", "muted")
    yield fold(name, opened, label, indent=3)
    yield from (_value(snapshot, graph, saved, nodes.get(saved.name)) for saved in (taken if opened else ()))


def _value(snapshot: Snapshot, graph: str, saved: SavedTensor, node: FxNode | None) -> Row:
    amount = "size unknown" if saved.bytes is None else size(saved.bytes)
    place = saved.location or (node.location if node else None)
    where = places(snapshot.file).describe(place)
    links: tuple[Link, ...] = (aten_link(graph, "forward", saved.name),)
    links += line_links(place)
    return row(
        (f"   {amount:>12}  ", "number"), (f"{saved.name}  ", "node"), (format_tensor(node) if node else "", "shape"),
        (f"  {where}" if where else "", "muted"), (f"  {format_call(node)}" if node else "", "target"),
        links=links, location=place, copy=saved.name,
    )  # fmt: skip


def _recomputed(
    snapshot: Snapshot, cut: Partitioned, nodes: dict[str, FxNode], toggled: frozenset[str], width: int
) -> Iterator[Row]:
    name = f"recomputed {cut.graph}"
    opened = name in toggled
    if not cut.recomputed:
        yield row((" nothing is recomputed in the backward", "muted"))
        return
    facts = f"  {count(len(cut.recomputed), 'node')} recomputed in the backward"
    yield fold(name, opened, ("recomputation", "heading"), (facts, "muted"), indent=1)
    if not opened:
        return
    why = "Their values are not saved; the backward recomputes them. Views cost nothing."
    yield from wrapped(why, width, "muted", indent=3)
    for recomputed in cut.recomputed:
        yield _again(snapshot, cut.graph, recomputed, nodes.get(recomputed))


def _again(snapshot: Snapshot, graph: str, name: str, node: FxNode | None) -> Row:
    place = node.location if node else None
    both = (aten_link(graph, phase, name) for phase in ("forward", "backward"))
    links = (*both, *line_links(place))
    where = places(snapshot.file).describe(place)
    facts = (
        (f"   {name}  ", "node"),
        (format_tensor(node) if node else "", "shape"),
        (f"  {where}" if where else "", "muted"),
        (f"  {format_call(node)}" if node else "", "target"),
    )
    return row(*facts, links=links, location=place, copy=name)


def _nodes(snapshot: Snapshot, graph: str) -> dict[str, FxNode]:
    forward: Iterable[FxNode] = (
        node
        for stage in snapshot.code.aten_graphs
        if (stage.graph, stage.stage) == (graph, "forward")
        for node in stage.nodes
    )
    return {node.name: node for node in forward}


def buffer_reuse_rows(snapshot: Snapshot, graph: str, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the rows on the wrappers of one graph."""
    known = labels(snapshot)
    for wrapper in snapshot.code.wrappers:
        if wrapper.graph == graph:
            yield from _wrapper(snapshot, wrapper, known, toggled)


def _wrapper(snapshot: Snapshot, wrapper: Wrapper, known: Labels, toggled: frozenset[str]) -> Iterator[Row]:
    if not wrapper.reused:
        yield row((f" no buffer reuse in the {wrapper.phase} wrapper", "muted"))
        return
    name = f"reused {wrapper.graph} {wrapper.phase}"
    opened = name in toggled
    facts = f"  {count(len(wrapper.reused), 'buffer')} in the {wrapper.phase}"
    yield fold(name, opened, ("buffer reuse", "heading"), (facts, "muted"), indent=1)
    if opened:
        by = _written_by(snapshot, wrapper)
        yield from (_row(freed, new, by, known) for freed, new in wrapper.reused)


def _row(freed: str, new: str, by: dict[str, Kernel], known: Labels) -> Row:
    writers = [by[name] for name in (freed, new) if name in by]
    links = tuple(kernel_link(kernel) for kernel in dict.fromkeys(writers))
    return row(
        ("   ", ""), *_buffer(freed, by, known), (" → ", "muted"), *_buffer(new, by, known), links=links,
        copy=f"{freed} → {new}",
    )  # fmt: skip


def _buffer(name: str, by: dict[str, Kernel], known: Labels) -> tuple[Span, ...]:
    """Return the buffer and the kernel that writes it."""
    kernel = by.get(name)
    label = known.kernel[kernel_link(kernel)].spans if kernel else ()
    return (Span(f"{name} ", "node"), *label)


def _written_by(snapshot: Snapshot, wrapper: Wrapper) -> dict[str, Kernel]:
    ours = (k for k in snapshot.code.kernels if (k.graph, k.phase) == (wrapper.graph, wrapper.phase))
    return {buffer: kernel for kernel in ours for buffer in kernel.buffers}
