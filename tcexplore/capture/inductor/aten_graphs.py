"""The graphs below Dynamo's: AOTAutograd's, with the values saved for the backward, and Inductor's post-grad graph."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_frames
from tcexplore.capture.fx_nodes import read_subgraphs
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import aten_node, record_replacements
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph, GraphPhase, Partitioned, RunFact, SavedTensor, clean
from tcexplore.events.inductor_events import AtenStage
from tcexplore.torch_text.graph_parts import PartNames


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


_COMPILE = "torch._functorch._aot_autograd.graph_compile"


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit AOTAutograd's graphs, what its partitioner saves and recomputes, and each post-grad graph to be lowered."""
    parts, emit_event = PartNames(), hooks.emit

    def split(event: TraceEvent) -> None:
        parts.add(event.graph or "", clean(str(event.meta.get("name") or "")))

    hooks.emit = lambda event: emit_event(parts.renamed(event))
    trace.subscribe(RunFact.AOT_GRAPHS, "optimize_ddp_split_child", split)

    def emit(stage: AtenStage, phase: GraphPhase, module: Any) -> None:
        hooks.emit(aten_graph(module, stage, phase, user_files))

    def inference(_state: Any, capture: Any, *_: Any, **__: Any) -> None:
        emit("inference", "forward", capture.graph_module)

    def joint(module: Any, *_: Any, **__: Any) -> None:
        emit("joint", "forward", module)

    def partitioned(result: Any, *_: Any, **__: Any) -> None:
        forward, backward = result[:2]
        emit("forward", "forward", forward)
        emit("backward", "backward", backward)
        hooks.emit(_partition(forward.graph, backward.graph, user_files))

    def lowering_begins(lowering: Any, *_: Any, **__: Any) -> None:
        if root(lowering) is lowering and not getattr(lowering, "is_const_graph", False):
            emit("post_grad", compilation(lowering).phase, lowering.module)

    hooks.watch(RunFact.AOT_INFERENCE_GRAPH, f"{_COMPILE}:aot_stage2_inference", before=inference)
    hooks.watch(RunFact.AOT_GRAPHS, f"{_COMPILE}:_aot_stage2a_partition", before=joint, after=partitioned)
    record_replacements(hooks)
    hooks.watch(RunFact.POST_GRAD_GRAPH, "torch._inductor.graph:GraphLowering.run", before=lowering_begins)


def _partition(forward: Any, backward: Any, user_files: UserFiles) -> Partitioned:
    """Return the values saved for the backward and the nodes recomputed in it.

    The partitioner gives a node of the joint graph the same name in the forward and in the backward.
    """
    forward_nodes = {node.name: node for node in forward.nodes if node.op != "output"}
    shared = [node for node in backward.nodes if node.name in forward_nodes]
    return Partitioned(
        graph=compile_id(),
        saved=tuple(_saved(forward_nodes[node.name], user_files) for node in shared if node.op == "placeholder"),
        recomputed=tuple(node.name for node in shared if node.op.startswith("call_")),
    )


def _saved(node: Any, user_files: UserFiles) -> SavedTensor:
    frames = user_frames(node, user_files) if node.op != "placeholder" else ()
    return SavedTensor(
        name=node.name,
        bytes=_bytes(node.meta.get("val")),
        input=node.op == "placeholder",
        location=frames[-1] if frames else None,
    )


def _bytes(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor):
        return None
    elements = value.numel()
    return elements * value.element_size() if isinstance(elements, int) else None
