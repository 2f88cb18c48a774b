"""The scheduler nodes behind one kernel call: names, buffers, bytes, FLOPs and the kind of fusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V
from torch.fx.node import Node, map_arg
from torch.utils.flop_counter import flop_registry

from tcexplore.events import FusionKind


class CallSchedule(NamedTuple):
    """Facts about the scheduler nodes of one kernel call; bytes and FLOPs are None if torch gives none."""

    kind: str
    """Class of the fused scheduler node, or classes of several."""
    names: tuple[str, ...]
    buffers: tuple[str, ...]
    """Buffers that the nodes write."""
    origins: frozenset[str]
    """Names of the post-grad nodes that the scheduler nodes come from."""
    bytes_read: int | None
    bytes_written: int | None
    bytes_saved: int | None
    flops: int | None
    fusion: FusionKind


def call_schedule(node_schedule: Iterable[Any], scheduler: Any, graph: Any) -> CallSchedule:
    """Return the facts of a node schedule of a post-grad graph, ignoring markers between its nodes (`EnableReduction`).

    In a subgraph, the nodes that computed its inputs are origins too. They have names of another graph.
    """
    nodes = [node for node in node_schedule if hasattr(node, "get_name") and hasattr(node, "read_writes")]
    parts = [part for node in nodes for part in node.get_nodes()]
    fused = _fused(nodes, scheduler)
    origins = {origin for part in parts for origin in _origins(part.node)}
    own = {origin.name for origin in origins if origin.graph is graph}
    return CallSchedule(
        kind=", ".join(dict.fromkeys(type(node).__name__ for node in fused)),
        names=tuple(part.get_name() for part in parts),
        buffers=tuple(name for part in parts for name in part.get_buffer_names()),
        origins=frozenset(own or {origin.name for origin in origins}),
        bytes_read=_sum(bytes_moved(node, writes=False) for node in fused),
        bytes_written=_sum(bytes_moved(node, reads=False) for node in fused),
        bytes_saved=_bytes_saved(parts, fused),
        flops=_sum(_flops(_computed(part.node)) for part in parts if part.is_extern() or part.is_template()),
        fusion=_fusion(parts, fused),
    )


_COUNT_BYTES = "get_read_write_buffer_accesses"


def bytes_moved(node: Any, *, reads: bool = True, writes: bool = True) -> int | None:
    """Return the bytes of the buffers that a scheduler node reads or writes, each counted once.

    For a fused node torch counts whole buffers, also a table of which an embedding reads a few rows. What the nodes in
    it access, in either direction, is less then; the same elements count once. torch's own methods for one direction
    cache their result, which may still change while torch fuses.
    """
    count = getattr(node, _COUNT_BYTES, None)
    if count is None:
        return None
    by_buffer: dict[str, int] = count(include_reads=reads, include_writes=writes)
    parts = node.get_nodes()
    if parts == [node]:
        return sum(by_buffer.values())
    accesses: dict[tuple[str, frozenset[Any]], int] = {}
    for part in parts:
        dependencies = part.read_writes.reads | part.read_writes.writes
        for name, size in part.get_read_write_buffer_accesses(include_reads=True, include_writes=True).items():
            own = [each for each in dependencies if each.name == name]
            elements = [each for each in dependencies if isinstance(each, MemoryDep)]
            if any(each.is_indirect() for each in elements if each.name == name):  # with other indices, other elements
                own += [each for each in elements if not V.graph.get_dtype(each.name).is_floating_point]
            key = name, frozenset(own)
            accesses[key] = max(size, accesses.get(key, 0))
    accessed: Counter[str] = Counter()
    for (name, _), size in accesses.items():
        accessed[name] += size
    return sum(min(size, accessed.get(name, size)) for name, size in by_buffer.items())


def _bytes_saved(parts: list[Any], fused: list[Any]) -> int | None:
    if parts and parts == fused and all(hasattr(node, _COUNT_BYTES) for node in parts):
        return 0  # without the sums, in which torch computes the size of each buffer
    separate, together = _sum(map(bytes_moved, parts)), _sum(map(bytes_moved, fused))
    return None if separate is None or together is None else separate - together


def _computed(node: Any) -> Node | None:
    """Return the post-grad node that an extern kernel or a template computes; None if it is not known.

    torch names none for a convolution and for a call with several results, but has a formula for one of its origins. A
    result of such a call computes nothing.
    """
    if type(node).__name__ == "MultiOutput":
        return None
    if (named := node.get_origin_node()) is not None:
        return named
    counted = [origin for origin in node.get_origins() if _formula(origin) is not None]
    return counted[0] if len(counted) == 1 else None


def _formula(node: Node) -> Any:
    return flop_registry.get(getattr(node.target, "overloadpacket", None))


def _flops(node: Node | None) -> int | None:
    """Count the FLOPs of a post-grad node with torch's formulas; None without a formula or with symbolic shapes."""
    formula = _formula(node) if node is not None else None
    if node is None or formula is None:
        return None
    args, kwargs = (map_arg(values, lambda arg: arg.meta.get("val")) for values in (node.args, node.kwargs))
    try:
        flops = formula(*args, **kwargs, out_val=node.meta.get("val"))
    except (TypeError, ValueError, AssertionError):
        return None
    return flops if isinstance(flops, int) else None


def _fusion(parts: list[Any], fused: list[Any]) -> FusionKind:
    """Return the kind of fusion, from the classes and predicates of torch's scheduler nodes."""
    if len(parts) < 2:
        return "template" if any(part.is_template() for part in parts) else ""
    if any("OuterLoop" in type(node).__name__ for node in fused):
        return "outer loop"
    if any(node.is_foreach() for node in fused):
        return "foreach"
    if any(part.is_template() for part in parts):
        return "template epilogue"
    return "reduction" if any(part.is_reduction() for part in parts) else "pointwise"


def _origins(node: Any) -> Iterable[Any]:
    """Return the post-grad nodes of an IR node.

    An extern kernel computes one node; if torch names it, the other origins are those of its inputs.
    """
    if node is None:
        return ()
    exact = origin_of_call(node)
    return node.get_origins() if exact is None else (exact,)


def origin_of_call(node: Any) -> Any:
    """Return the post-grad node of an extern call or of the user's Triton kernel, None for generated code."""
    if type(node).__name__ == "UserDefinedTritonKernel":
        return getattr(node, "fx_node", None)
    if not hasattr(node, "op_overload"):
        return None
    return node.get_origin_node() or _only_origin_of(node, node.op_overload)


def _only_origin_of(node: Any, op: Any) -> Any:
    """Return the origin that calls an op, if it is one: torch names none for a convolution whose input it copies."""
    packet = getattr(op, "overloadpacket", op)
    same = [
        origin for origin in node.get_origins() if getattr(origin.target, "overloadpacket", origin.target) is packet
    ]
    return same[0] if len(same) == 1 else None


def _fused(nodes: list[Any], scheduler: Any) -> list[Any]:
    """Return the fused nodes that contain these: torch's sizes are right for fused nodes only."""
    fused = getattr(scheduler, "name_to_fused_node", {})
    return list(dict.fromkeys(fused.get(node.get_name(), node) for node in nodes))


def _sum(numbers: Iterable[Any]) -> int | None:
    known = [int(number) for number in numbers if number is not None]
    return sum(known) if known else None
