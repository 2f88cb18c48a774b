"""What Inductor's scheduler knows of the nodes behind one kernel call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tcexplore.capture.inductor.flops import flops


class Scheduled(NamedTuple):
    """Names of scheduler nodes and of the buffers that they write, the post-grad nodes they came from; `kind` is the
    class of the fused scheduler node, or the classes of several. Bytes and flops are None where there are none."""

    kind: str
    names: tuple[str, ...]
    buffers: tuple[str, ...]
    origins: frozenset[str]
    bytes_read: int | None
    bytes_written: int | None
    bytes_saved: int | None
    flops: int | None
    fusion: str


def scheduled(schedule: Iterable[Any], scheduler: Any) -> Scheduled:
    """The facts of a node schedule; the marks between its nodes (`EnableReduction`) are passed over."""
    nodes = [node for node in schedule if hasattr(node, "get_name") and hasattr(node, "read_writes")]
    parts = [part for node in nodes for part in node.get_nodes()]
    whole = _fused(nodes, scheduler)
    return Scheduled(
        kind=", ".join(dict.fromkeys(type(node).__name__ for node in whole)),
        names=tuple(part.get_name() for part in parts),
        buffers=tuple(name for part in parts for name in part.get_buffer_names()),
        origins=frozenset(origin.name for part in parts for origin in _origins(part.node)),
        bytes_read=_sum(bytes_moved(node, writes=False) for node in whole),
        bytes_written=_sum(bytes_moved(node, reads=False) for node in whole),
        bytes_saved=_saved(parts, whole),
        flops=_sum(flops(part.node.get_origin_node()) for part in parts if part.is_extern() or part.is_template()),
        fusion=_fusion(parts, whole),
    )


def bytes_moved(node: Any, *, reads: bool = True, writes: bool = True) -> int | None:
    """Bytes of the buffers that a scheduler node reads or writes, each once. Not through torch's own methods for one
    direction: those keep their answer, which may still change while torch fuses."""
    count = getattr(node, "get_read_write_buffers_sizes_impl", None)
    return None if count is None else int(count(include_reads=reads, include_writes=writes))


def _saved(parts: list[Any], whole: list[Any]) -> int | None:
    apart, together = _sum(map(bytes_moved, parts)), _sum(map(bytes_moved, whole))
    return None if apart is None or together is None else apart - together


def _fusion(parts: list[Any], whole: list[Any]) -> str:
    """What was fused, by the classes and answers of torch's scheduler nodes."""
    if len(parts) < 2:
        return "template" if any(part.is_template() for part in parts) else ""
    if any("OuterLoop" in type(node).__name__ for node in whole):
        return "outer loop"
    if any(node.is_foreach() for node in whole):
        return "foreach"
    if any(part.is_template() for part in parts):
        return "template epilogue"
    return "reduction" if any(part.is_reduction() for part in parts) else "pointwise"


def _origins(node: Any) -> Iterable[Any]:
    """The post-grad nodes of an IR node. An extern kernel computes just one, where torch says which; its other origins
    are those of what it reads."""
    if node is None:
        return ()
    exact = node.get_origin_node() if hasattr(node, "op_overload") else None
    return node.get_origins() if exact is None else (exact,)


def _fused(nodes: list[Any], scheduler: Any) -> list[Any]:
    """The scheduler's own nodes that these are part of: sizes are right only for those."""
    fused = getattr(scheduler, "name_to_fused_node", {})
    return list(dict.fromkeys(fused.get(node.get_name(), node) for node in nodes))


def _sum(numbers: Iterable[Any]) -> int | None:
    known = [int(number) for number in numbers if number is not None]
    return sum(known) if known else None
