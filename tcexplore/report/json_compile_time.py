"""Where compiling spent its time, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompileSpan, files_compiled
from tcexplore.session.compile_time import compile_time as tree_of

Fields = dict[str, Any]


def compile_time(snapshot: Snapshot) -> Fields:
    """The whole tree, nothing left out."""
    found = tree_of(snapshot)
    kernels = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)
    return {
        "seconds": found.seconds,
        "wall_s": found.wall_seconds,
        "running_s": found.graph_seconds,
        "frames_s": found.frame_seconds,
        "coverage": found.coverage,
        "tree": [_span(root) for root in found.roots],
        "kernels": [{"graph": kernel.graph, "name": kernel.name, "seconds": kernel.seconds} for kernel in kernels],
        "files_s": list(files_compiled(found.roots)),
    }


def _span(span: CompileSpan) -> Fields:
    return {
        "name": span.name,
        "graph": span.graph,
        "seconds": span.seconds,
        "own_s": span.self_seconds,
        "count": span.count,
        "inside": [_span(inner) for inner in span.children],
    }
