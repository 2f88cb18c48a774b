"""The graph that Inductor lowers: the post-grad graph after all passes, and the compile that it belongs to."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.fx.fx_node import read_subgraphs
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import aten_node, record_replacements
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph, GraphPhase, RunFact
from tcexplore.events.inductor_events import AtenStage


class Compilation(NamedTuple):
    """One of Inductor's compiles."""

    graph: str
    """The compile id of the Dynamo graph (`0/0`)."""
    phase: GraphPhase


def compile_id() -> str:
    """Return the current compile id, empty outside a compile that Dynamo started."""
    return current_compile_id() or ""


def root(lowering: Any) -> Any:
    """Return the `GraphLowering` of the whole graph, given that of a subgraph."""
    while getattr(lowering, "parent", None) is not None:
        lowering = lowering.parent
    return lowering


def compilation(lowering: Any) -> Compilation:
    """Return the compile that a `GraphLowering` belongs to."""
    return Compilation(compile_id(), "backward" if root(lowering).is_backward else "forward")


def aten_graph(module: Any, stage: AtenStage, phase: GraphPhase, user_files: UserFiles) -> AtenGraph:
    """Return the record of a graph below Dynamo's, with its subgraphs."""
    read_node = partial(aten_node, user_files=user_files)
    return AtenGraph(
        graph=compile_id(),
        stage=stage,
        phase=phase,
        nodes=tuple(map(read_node, module.graph.nodes)),
        subgraphs=read_subgraphs(module, read_node),
    )


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit the post-grad graph when its lowering begins."""

    def lowering_begins(lowering: Any, *_: Any, **__: Any) -> None:
        if root(lowering) is not lowering or getattr(lowering, "is_const_graph", False):
            return
        hooks.emit(aten_graph(lowering.module, "post_grad", compilation(lowering).phase, user_files))

    record_replacements(hooks)
    hooks.watch(RunFact.POST_GRAD_GRAPH, "torch._inductor.graph:GraphLowering.run", before=lowering_begins)
