"""The Python module that Inductor wrote around its kernels, as it was written to disk."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compilation
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Wrapper


def _reused(lowering: Any) -> tuple[tuple[str, str], ...]:
    """Buffers that the memory planner let others take over, from the planned lines of the wrapper."""
    lines = getattr(getattr(lowering, "wrapper_code", None), "lines", ())
    planned = [line for line in lines if type(line).__name__ == "ReuseLine"]
    return tuple((line.node.get_name(), line.reused_as.get_name()) for line in planned)


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `Wrapper` for each module of generated code; torch says so before its C++ or Triton compiler runs."""

    def written(event: TraceEvent) -> None:
        from torch._inductor.virtualized import V

        graph, phase = compilation(V.graph)
        path = event.meta.get("file_path", "") if isinstance(event.meta, dict) else ""
        source, reused = event.payload or "", _reused(V.graph)
        hooks.emit(Wrapper(graph=event.graph or graph, phase=phase, source=source, path=path, reused=reused))

    trace.subscribe("wrapper code", "inductor_output_code", written)
