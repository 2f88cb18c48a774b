"""Which parts of a run are replayed from CUDA graphs, and why the others are not."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compilation, compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CudaGraphRecorded, CudaGraphSkipped

FACT = "CUDA graphs"
NODE = "torch._inductor.cudagraph_trees:CUDAGraphNode"

_SKIP = "log_cudagraph_skip_and_bump_counter"
_SKIPS_IN = (
    "torch._inductor.output_code",
    "torch._inductor.compile_fx",
    "torch._inductor.cudagraph_trees",
    "torch._dynamo.backends.cudagraphs",
)
"""These modules hold the function under their own name."""


class CudaGraphs:
    """Follows torch while it records; knows what a row of recordings held before its first."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._base: dict[int, int] = {}
        self._before = 0
        self._sizes: list[int] = []
        self._said: set[CudaGraphSkipped] = set()
        self._manager: Any = None

    def install(self) -> None:
        watch, module = self._hooks.watch, "torch._inductor"
        watch(FACT, f"{NODE}.__init__", before=self._begins, after=self._recorded)
        watch(f"{FACT} ", f"{module}.cudagraph_trees:CUDAGraphTreeManager.run", before=self._runs, after=self._ran)
        for name in _SKIPS_IN:
            watch("CUDA graphs that were skipped", f"{name}:{_SKIP}", before=self._skipped)
        watch(
            "CUDA graphs that were skipped", f"{module}.output_code:cudagraph_partition_post_compile",
            before=self._compiled,
        )  # fmt: skip
        watch("parts outside CUDA graphs", f"{module}.scheduler:Scheduler.should_partition", after=self._parted)

    def _begins(self, _node: Any, _wrapped: Any, _id: Any, parent: Any, inputs: Any, *_: Any, **__: Any) -> None:
        """The allocator's peak is read around a recording: what it takes then is all that a replay uses."""
        torch.cuda.synchronize()
        # torch lets go of cuBLAS's workspace for the time of a recording; it must not count as freed by the graph.
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self._before = before if parent is None else self._base.get(parent.id.id, before)
        self._sizes = [one.nbytes if isinstance(one, torch.Tensor) else 0 for one in inputs]

    def _recorded(
        self, _: None, node: Any, wrapped: Any, number: Any, parent: Any, _inputs: Any, *more: Any, **named: Any
    ) -> None:
        torch.cuda.synchronize()
        mode = next((one for one in (*more, *named.values()) if type(one).__name__ == "CompilationMode"), None)
        graph = next((one for one in (*more, *named.values()) if type(one).__name__ == "CompileId"), None)
        self._base[number.id] = self._before
        copied = [self._sizes[index] for index in node.non_static_input_idx if self._sizes[index]]
        self._hooks.emit(
            CudaGraphRecorded(
                graph="" if graph is None else str(graph),
                phase="backward" if getattr(mode, "name", "") == "BACKWARD" else "forward",
                number=number.id,
                part=str(getattr(wrapped.model, "__name__", "")),
                parent=None if parent is None else parent.id.id,
                copied=len(copied),
                copied_bytes=sum(copied),
                peak=torch.cuda.max_memory_allocated() - self._before,
            )
        )

    def _runs(self, manager: Any, *_: Any, **__: Any) -> None:
        self._manager = manager

    def _ran(self, *_: Any, **__: Any) -> None:
        self._manager = None

    def _skipped(self, reason: str, *_: Any, **__: Any) -> None:
        running = getattr(self._manager, "compile_id", None)
        self._say(CudaGraphSkipped(graph=str(running or compile_id()), reason=reason))

    def _compiled(self, _inputs: Any, compiled: Any, *_: Any, **__: Any) -> None:
        """torch logs nothing where a graph that it would have cut into parts is skipped as a whole."""
        phase = "backward" if compiled.fx_kwargs.get("is_backward") else "forward"
        for reason in getattr(compiled.cudagraph_info, "cudagraph_fail_reasons", None) or ():
            self._say(CudaGraphSkipped(graph=compile_id(), phase=phase, reason=str(reason)))

    def _parted(self, reason: Any, _scheduler: Any, node: Any, *_: Any, **__: Any) -> None:
        """A fused node asks for each of those in it; only these are said."""
        from torch._inductor.virtualized import V

        if not isinstance(reason, str) or hasattr(node, "snodes") or not torch._inductor.config.triton.cudagraphs:
            return
        graph, phase = compilation(V.graph)
        self._say(CudaGraphSkipped(graph=graph, phase=phase, reason=reason, nodes=(node.get_name(),)))

    def _say(self, skipped: CudaGraphSkipped) -> None:
        if skipped not in self._said:
            self._said.add(skipped)
            self._hooks.emit(skipped)


def install(hooks: Hooks, _trace: StructuredTrace, _project: UserFiles) -> None:
    """Watch recordings, and every place where torch does without one; there are none without a GPU."""
    if torch.cuda.is_available():
        CudaGraphs(hooks).install()
