"""The Python module that Inductor wrote around its kernels, as it was written to disk."""

from __future__ import annotations

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import compilation
from tcexplore.capture.project import Project
from tcexplore.capture.trace import StructuredTrace, TraceEvent
from tcexplore.events import Wrapper


def install(hooks: Hooks, trace: StructuredTrace, project: Project) -> None:  # noqa: ARG001
    """Emit a `Wrapper` for each module of generated code; torch says so before its C++ or Triton compiler runs."""

    def written(event: TraceEvent) -> None:
        from torch._inductor.virtualized import V

        graph, phase = compilation(V.graph)
        path = event.meta.get("file_path", "") if isinstance(event.meta, dict) else ""
        hooks.emit(Wrapper(graph=event.graph or graph, phase=phase, source=event.payload or "", path=path))

    trace.subscribe("wrapper code", "inductor_output_code", written)
