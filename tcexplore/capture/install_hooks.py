"""Installation of every capture module, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event

VECTOR_PROBE = "inductor.vector_probe"
"""Makes the compile faster. `inductor.library_files` changes how it writes files; all others only observe it."""

DYNAMO_MODULES = (
    "dynamo.dynamo_graphs",
    "dynamo.graph_breaks",
    "dynamo.guards",
    "dynamo.symbolic_sizes",
    "dynamo.recompiles",
    "dynamo.frame_entries",
    "dynamo.eager_ops",
    "dynamo.break_costs",
    "dynamo.rewritten_functions",
)
"""Modules of `tcexplore.capture` with a function `install(hooks, trace, user_files)`, installed before the run."""

BACKEND_MODULES = (
    "inductor.aten_graphs",
    "inductor.pass_diffs",
    "inductor.kernels",
    "inductor.fusion_decisions",
    "inductor.inductor_trace",
    "inductor.vectorization",
    VECTOR_PROBE,
    "inductor.autotuning",
    "inductor.cuda_graphs",
    "inductor.compiler_state",
    "inductor.library_files",
)
"""Modules installed when the first graph reaches its backend: importing Inductor would delay that graph by a second."""

BACKEND_CALL = "torch._dynamo.output_graph:OutputGraph.call_user_compiler"


def module_names() -> list[str]:
    """Return the full names of all modules."""
    return [f"tcexplore.capture.{module}" for module in (*DYNAMO_MODULES, *BACKEND_MODULES)]


@contextmanager
def events_apart(own: Hooks, user_files: UserFiles) -> Iterator[list[Event]]:
    """Collect the events of calls that are not the run's, with hooks of their own; the run's hooks emit nothing.

    The run's own observers know what they emitted once.
    """
    events: list[Event] = []
    hooks = Hooks(events.append)
    with ExitStack() as stack:
        stack.callback(hooks.remove)
        stack.callback(install_all(hooks, user_files).remove)
        stack.enter_context(own.silenced())
        yield events


def install_all(hooks: Hooks, user_files: UserFiles, *, probe: bool = True) -> StructuredTrace:
    """Install every capture module and return the live trace, which takes further subscribers.

    Without `probe`, the first compile takes as long as in a plain script.
    Modules are imported one by one: one that fails to install is reported as a missing fact, and the others work.
    """
    trace = StructuredTrace(hooks)
    pending = [module for module in BACKEND_MODULES if probe or module != VECTOR_PROBE]

    def install_backend(*_: Any, **__: Any) -> None:
        if pending:
            _install(pending, hooks, trace, user_files)
            pending.clear()
            trace.filter_unused()

    # Installed before the hook of `dynamo_graphs`, and so called after it.
    hooks.watch("backend hooks", BACKEND_CALL, before=install_backend)
    _install(DYNAMO_MODULES, hooks, trace, user_files)
    trace.install()
    return trace


def _install(modules: Iterable[str], hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:
    for module in modules:
        name = f"tcexplore.capture.{module}"
        try:
            import_module(name).install(hooks, trace, user_files)
        except Exception as error:  # noqa: BLE001  another torch may fail in any way, and that costs this module's facts only
            hooks.report_missing(name.rpartition(".")[2], name, f"{type(error).__name__}: {error}")
