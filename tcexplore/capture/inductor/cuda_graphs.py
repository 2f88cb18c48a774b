"""CUDA graph recordings of a run, the reasons for skipped ones, and calls that replay none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compilation, compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CudaGraphRecorded, CudaGraphSkipped

RECORDED_FACT = "CUDA graphs"
SKIPPED_FACT = "CUDA graphs that were skipped"

_TREES = "torch._inductor.cudagraph_trees"
_SKIP_LOGGER = "log_cudagraph_skip_and_bump_counter"
_SKIP_MODULES = (
    "torch._inductor.output_code",
    "torch._inductor.compile_fx",
    _TREES,
    "torch._dynamo.backends.cudagraphs",
)
"""Modules that import the function by name."""


class CudaGraphs:
    """Observer of recordings; it knows the memory before the first recording of each tree path."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._allocated_before: dict[int, int] = {}
        """Bytes allocated before the first recording of the path, by recording."""
        self._before = 0
        self._input_sizes: list[int] = []
        self._emitted: set[CudaGraphSkipped] = set()

    def install(self) -> None:
        """Watch recordings, and every place that skips CUDA graphs; nothing that each replay calls, which is timed."""
        watch = self._hooks.watch
        watch(RECORDED_FACT, f"{_TREES}:CUDAGraphNode.__init__", before=self._begins, after=self._recorded)
        for name in _SKIP_MODULES:
            watch(SKIPPED_FACT, f"{name}:{_SKIP_LOGGER}", before=self._skipped)
        watch(SKIPPED_FACT, "torch._inductor.output_code:cudagraph_partition_post_compile", before=self._compiled)
        watch(
            "parts outside CUDA graphs", "torch._inductor.scheduler:Scheduler.should_partition",
            after=self._partitioned,
        )  # fmt: skip

    def _begins(self, _node: Any, _wrapped: Any, _id: Any, parent: Any, inputs: Any, *_: Any, **__: Any) -> None:
        """Reset the allocator's peak: replays use only memory that the recording allocated."""
        torch.cuda.synchronize()
        # torch frees cuBLAS's workspace for the duration of a recording; the graph did not free it.
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self._before = before if parent is None else self._allocated_before.get(parent.id.id, before)
        self._input_sizes = [value.nbytes if isinstance(value, torch.Tensor) else 0 for value in inputs]

    def _recorded(
        self, _: None, node: Any, wrapped: Any, number: Any, parent: Any, _inputs: Any, *more: Any, **named: Any
    ) -> None:
        torch.cuda.synchronize()
        arguments = (*more, *named.values())
        mode = next((value for value in arguments if type(value).__name__ == "CompilationMode"), None)
        graph = next((value for value in arguments if type(value).__name__ == "CompileId"), None)
        self._allocated_before[number.id] = self._before
        copied = [self._input_sizes[index] for index in node.non_static_input_idx if self._input_sizes[index]]
        self._hooks.emit(
            CudaGraphRecorded(
                graph="" if graph is None else str(graph),
                phase="backward" if getattr(mode, "name", "") == "BACKWARD" else "forward",
                number=number.id,
                part=str(getattr(wrapped.model, "__name__", "")),
                parent=None if parent is None else parent.id.id,
                inputs_copied=len(copied),
                inputs_copied_bytes=sum(copied),
                peak_bytes=torch.cuda.max_memory_allocated() - self._before,
            )
        )

    def _skipped(self, reason: str, *_: Any, **__: Any) -> None:
        self._emit_skipped(CudaGraphSkipped(graph=running_graph() or compile_id(), reason=reason))

    def _compiled(self, _inputs: Any, compiled: Any, *_: Any, **__: Any) -> None:
        """Emit why torch skips a whole graph instead of partitioning it, which it does not log."""
        phase = "backward" if compiled.fx_kwargs.get("is_backward") else "forward"
        for reason in getattr(compiled.cudagraph_info, "cudagraph_fail_reasons", None) or ():
            self._emit_skipped(CudaGraphSkipped(graph=compile_id(), phase=phase, reason=str(reason)))

    def _partitioned(self, reason: Any, _scheduler: Any, node: Any, *_: Any, **__: Any) -> None:
        """Emit why a node stays outside; a fused node calls this for each of its nodes, and only these calls count."""
        from torch._inductor.virtualized import V

        if not isinstance(reason, str) or hasattr(node, "snodes") or not torch._inductor.config.triton.cudagraphs:
            return
        graph, phase = compilation(V.graph)
        self._emit_skipped(CudaGraphSkipped(graph=graph, phase=phase, reason=reason, nodes=(node.get_name(),)))

    def _emit_skipped(self, skipped: CudaGraphSkipped) -> None:
        if skipped not in self._emitted:
            self._emitted.add(skipped)
            self._hooks.emit(skipped)


def running_graph() -> str:
    """Return the compile id of the graph that the manager of CUDA graphs runs now; empty if it runs none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        manager = frame.f_locals.get("self")
        if type(manager).__name__ == "CUDAGraphTreeManager":
            return str(getattr(manager, "compile_id", None) or "")
        frame = frame.f_back
    return ""


def begins_steps() -> bool:
    """Return whether the program tells torch where its steps begin: torch then begins none by itself."""
    counter = getattr(getattr(sys.modules.get(_TREES), "MarkStepBox", None), "mark_step_counter", 0)
    return bool(counter)


WITHOUT_REPLAY = f"{_TREES}:CUDAGraphTreeManager._run"


@contextmanager
def without_replay() -> Iterator[None]:
    """Have calls run the code that CUDA graphs recorded. Raises `AttributeError` if this torch cannot do so."""
    from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

    replay = CUDAGraphTreeManager._run

    def run(self: Any, inputs: Any, function: Any) -> Any:
        return self.ids_to_funcs[function].model(inputs)

    setattr(CUDAGraphTreeManager, "_run", run)  # noqa: B010 - mypy rejects the assignment where torch is installed
    try:
        yield
    finally:
        setattr(CUDAGraphTreeManager, "_run", replay)  # noqa: B010


def install(hooks: Hooks, _trace: StructuredTrace, _user_files: UserFiles) -> None:
    """Watch recordings and skipped graphs; without a GPU there are none."""
    if torch.cuda.is_available():
        CudaGraphs(hooks).install()
