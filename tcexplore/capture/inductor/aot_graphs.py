"""What AOTAutograd made: the joint graph, forward and backward, or the inference graph; what the forward saves."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compile_id
from tcexplore.capture.inductor.origins import aten_node
from tcexplore.capture.inductor.partitioner import partition
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph

_COMPILE = "torch._functorch._aot_autograd.graph_compile"


class AotGraphs:
    """Sees the graphs pass between AOTAutograd's stages."""

    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project

    def install(self) -> None:
        """Watch the stages' entries and the partitioner's exit."""
        watch = self._hooks.watch
        watch("AOT inference graph", f"{_COMPILE}:aot_stage2_inference", before=self._inference)
        watch("AOT graphs", f"{_COMPILE}:_aot_stage2a_partition", before=self._joint, after=self._partitioned)

    def _inference(self, _state: Any, capture: Any, *_: Any, **__: Any) -> None:
        self._emit("inference", "forward", capture.graph_module)

    def _joint(self, joint: Any, *_: Any, **__: Any) -> None:
        self._emit("joint", "forward", joint)

    def _partitioned(self, result: Any, *_: Any, **__: Any) -> None:
        forward, backward = result[:2]
        self._emit("forward", "forward", forward)
        self._emit("backward", "backward", backward)
        self._hooks.emit(partition(compile_id(), forward.graph, backward.graph, self._project))

    def _emit(self, stage: str, phase: str, module: Any) -> None:
        nodes = tuple(aten_node(node, self._project) for node in module.graph.nodes)
        self._hooks.emit(AtenGraph(graph=compile_id(), stage=stage, phase=phase, nodes=nodes))


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit AOTAutograd's graphs as they are made, and what its partitioner saved and chose to recompute."""
    AotGraphs(hooks, project).install()
