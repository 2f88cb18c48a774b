"""Rows of the AOT view: tensors saved for the backward, recomputed nodes, reused buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tcexplore.documents.document import Row, Span
from tcexplore.documents.graph.node_labels import format_call, format_tensor
from tcexplore.documents.labels import Labels, labels
from tcexplore.documents.locations import places
from tcexplore.documents.memo import by_identity
from tcexplore.documents.prose import fold, row, wrapped
from tcexplore.events import FxNode, Kernel, Partitioned, SavedTensor, Wrapper
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, aten_link, kernel_link, line_links


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
        (f"  {format_call(node)}" if node else "", "target"), (f"  {where}" if where else "", "muted"),
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
        (f"  {format_call(node)}" if node else "", "target"),
    )
    return row(*facts, (f"  {where}" if where else "", "muted"), links=links, location=place, copy=name)


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
