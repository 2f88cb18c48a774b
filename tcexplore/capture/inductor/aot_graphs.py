"""AOTAutograd's graphs (joint, forward, backward, inference) and the values that the forward saves for the backward."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.dynamo.trace_position import user_frames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import aten_graph, compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import GraphPhase, Partitioned, RunFact, SavedTensor
from tcexplore.events.inductor_events import AtenStage

_COMPILE = "torch._functorch._aot_autograd.graph_compile"


class AotGraphs:
    """Observer of the graphs that pass between AOTAutograd's stages."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files

    def install(self) -> None:
        """Watch where the inference stage and the partitioner start, and where the partitioner returns."""
        watch = self._hooks.watch
        watch(RunFact.AOT_INFERENCE_GRAPH, f"{_COMPILE}:aot_stage2_inference", before=self._inference)
        watch(RunFact.AOT_GRAPHS, f"{_COMPILE}:_aot_stage2a_partition", before=self._joint, after=self._partitioned)

    def _inference(self, _state: Any, capture: Any, *_: Any, **__: Any) -> None:
        self._emit("inference", "forward", capture.graph_module)

    def _joint(self, joint: Any, *_: Any, **__: Any) -> None:
        self._emit("joint", "forward", joint)

    def _partitioned(self, result: Any, *_: Any, **__: Any) -> None:
        forward, backward = result[:2]
        self._emit("forward", "forward", forward)
        self._emit("backward", "backward", backward)
        self._hooks.emit(_partition(forward.graph, backward.graph, self._user_files))

    def _emit(self, stage: AtenStage, phase: GraphPhase, module: Any) -> None:
        self._hooks.emit(aten_graph(module, stage, phase, self._user_files))


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
    frames = user_frames(node.stack_trace, user_files) if node.op != "placeholder" else ()
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


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit AOTAutograd's graphs, and the values that its partitioner saves and recomputes."""
    AotGraphs(hooks, user_files).install()
