"""Every hook of the capture, in the order in which they are put in place."""

from __future__ import annotations

from importlib import import_module

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

ROOMS = (
    "dynamo.dynamo_graphs",
    "dynamo.graph_breaks",
    "dynamo.skipped_frames",
    "guards.guards",
    "guards.symbolic_sizes",
    "dynamo.recompiles",
    "dynamo.frame_entries",
    "inductor.aot_graphs",
    "inductor.lowering_graph",
    "inductor.pass_diffs",
    "inductor.kernels",
    "inductor.wrapper",
    "inductor.fusion_decisions",
    "inductor.cache_lookups",
    "inductor.kernel_compiles",
    "inductor.vectorization",
    "inductor.autotuning",
    "inductor.cuda_graphs",
    "dynamo.eager_ops",
    "dynamo.break_costs",
    "dynamo.backward_captures",
)
"""Modules of `tcexplore.capture`; each has `install(hooks, trace, project)`.

Imported one by one: a torch without something that one of them imports costs that room only.
"""


def modules() -> list[str]:
    """The rooms' full names."""
    return [f"tcexplore.capture.{room}" for room in ROOMS]


def install_all(hooks: Hooks, project: UserFiles) -> StructuredTrace:
    """Put every hook in place; returns the live trace, to which more may be subscribed.

    A room that this torch has no place for reports its facts as missing and leaves the others alone.
    """
    trace = StructuredTrace(hooks)
    for name in modules():
        try:
            import_module(name).install(hooks, trace, project)
        except Exception as error:
            hooks.missing(name.rpartition(".")[2], name, f"{type(error).__name__}: {error}")
    trace.install()
    return trace
