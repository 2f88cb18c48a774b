"""How long each Triton kernel took to compile, from torch's own compilation metrics."""

from __future__ import annotations

import json

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import KernelCompiled

FACT = "compile time of each kernel"
METRIC = "triton_kernel_compile_times_us"


def install(hooks: Hooks, trace: StructuredTrace, _project: UserFiles) -> None:
    """Emit a `KernelCompiled` for each kernel that torch names; it names the slowest of a graph, and no C++ ones."""

    def take(event: TraceEvent) -> None:
        for name, microseconds in json.loads(event.meta.get(METRIC) or "[]"):
            hooks.emit(KernelCompiled(graph=event.graph or "", name=str(name), seconds=microseconds / 1e6))

    trace.subscribe(FACT, "compilation_metrics", take)
