"""Installation of every capture module, in order."""

from __future__ import annotations

from importlib import import_module

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

MODULES = (
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
    "inductor.fusion_decisions",
    "inductor.inductor_trace",
    "inductor.vectorization",
    "inductor.autotuning",
    "inductor.cuda_graphs",
    "dynamo.eager_ops",
    "dynamo.break_costs",
)
"""Modules of `tcexplore.capture` with a function `install(hooks, trace, user_files)`.

They are imported one by one: if this torch lacks something that a module imports, only that module's facts are missing.
"""


def module_names() -> list[str]:
    """Return the full names of `MODULES`."""
    return [f"tcexplore.capture.{module}" for module in MODULES]


def install_all(hooks: Hooks, user_files: UserFiles) -> StructuredTrace:
    """Install every capture module and return the live trace, which takes further subscribers.

    A module that fails to install is reported as a missing fact; the others work.
    """
    trace = StructuredTrace(hooks)
    for name in module_names():
        try:
            import_module(name).install(hooks, trace, user_files)
        except Exception as error:  # another torch may fail in any way, and that costs this module's facts only
            hooks.report_missing(name.rpartition(".")[2], name, f"{type(error).__name__}: {error}")
    trace.install()
    return trace
