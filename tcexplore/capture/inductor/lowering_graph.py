"""Which compile Inductor is at, and the graph that it lowers: the post-grad graph, after all passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import replaced_nodes as replaced
from tcexplore.capture.inductor.origins import aten_node
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph


class Compilation(NamedTuple):
    """The compile id of the Dynamo graph (`0/0`), and whether its `forward` or its `backward` is compiled."""

    graph: str
    phase: str


def compile_id() -> str:
    """The compile id of what is being compiled now; empty outside of a compile that Dynamo started."""
    from torch._guards import CompileContext

    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)


def root(lowering: Any) -> Any:
    """The lowering of the whole graph that a subgraph's lowering is part of."""
    while getattr(lowering, "parent", None) is not None:
        lowering = lowering.parent
    return lowering


def compilation(lowering: Any) -> Compilation:
    """What a `GraphLowering` belongs to."""
    return Compilation(compile_id(), "backward" if root(lowering).is_backward else "forward")


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit the post-grad graph when its lowering begins."""

    def lowering_begins(lowering: Any, *_: Any, **__: Any) -> None:
        if root(lowering) is not lowering or getattr(lowering, "is_const_graph", False):
            return
        graph, phase = compilation(lowering)
        nodes = tuple(aten_node(node, project) for node in lowering.graph.nodes)
        hooks.emit(AtenGraph(graph=graph, stage="post_grad", phase=phase, nodes=nodes))

    replaced.install(hooks)
    hooks.watch("post-grad graph", "torch._inductor.graph:GraphLowering.run", before=lowering_begins)
