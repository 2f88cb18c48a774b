"""What Inductor's scheduler orders and fuses: its nodes, the buffers that each uses and the nodes that it waits for."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compilation
from tcexplore.events import ScheduleMade, SchedulerNode


def install(hooks: Hooks) -> None:
    """Emit a `ScheduleMade` when the scheduler has fused what it will fuse."""

    def made(scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        of = compilation(V.graph)
        nodes = tuple(_record(scheduler, part) for node in scheduler.nodes for part in node.get_nodes())
        attempts = _config("max_fusion_buffer_group_pairwise_attempts")
        hooks.emit(ScheduleMade(graph=of.graph, phase=of.phase, nodes=nodes, attempts=attempts))

    hooks.watch("schedule", "torch._inductor.scheduler:Scheduler.codegen", before=made)


def _record(scheduler: Any, node: Any) -> SchedulerNode:
    name = node.get_name()
    # A weak dependency keeps an order, for a buffer that is overwritten later; nothing is read because of it.
    reads = (dep for dep in node.read_writes.reads if type(dep).__name__ != "WeakDep")
    makers = (_maker(scheduler, dep.name) for dep in reads)
    return SchedulerNode(
        name=name,
        buffers=tuple(sorted(node.used_buffer_names())),
        needs=tuple(sorted({maker for maker in makers if maker not in ("", name)})),
    )


def _maker(scheduler: Any, buffer: str) -> str:
    """The scheduler node that computes a buffer; empty for an input of the graph."""
    found = scheduler.name_to_buf.get(buffer)
    return "" if found is None else str(found.defining_op_name())


def _config(name: str) -> int | None:
    from torch._inductor import config

    return getattr(config, name, None)
