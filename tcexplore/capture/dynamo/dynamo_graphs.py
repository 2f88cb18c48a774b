"""Dynamo's FX graphs, taken when Dynamo hands them to the backend, whichever that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.fx.fx_node import fx_node
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.node_stacks import record_caller
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import NodeNames, UserFiles
from tcexplore.events import GraphCaptured, Location
from tcexplore.events.compile_ids import backward_number

_FACT = "FX graphs"
_CALLS = ("call_function", "call_method", "call_module")
_WRITTEN = "<eval_with_key>"
"""The file that torch names for the code of a graph."""


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `GraphCaptured` for each graph, before the backend starts on it."""
    observer = _Graphs(hooks, project)
    trace.subscribe(_FACT, "dynamo_output_graph", observer.printed)
    hooks.watch(_FACT, "torch._dynamo.output_graph:OutputGraph.call_user_compiler", before=observer.captured)


class _Graphs:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._printed: tuple[str | None, str] = (None, "")

    def printed(self, event: TraceEvent) -> None:
        """torch prints the graph for its trace just before; printing it again would double that cost."""
        self._printed = (event.graph, event.payload or "")

    def captured(self, output_graph: Any, gm: Any, *_args: Any) -> None:
        graph = current_compile_id() or ""
        record_caller(graph, self._project)
        nodes = tuple(fx_node(node, self._project) for node in gm.graph.nodes)
        names = frozenset(node.name for node in nodes)
        self._project.nodes[graph] = NodeNames(names, dict(_first_names(gm.graph.nodes)))
        printed_for, code = self._printed
        self._hooks.emit(
            GraphCaptured(
                graph=graph,
                ops=sum(node.op in _CALLS for node in nodes),
                nodes=nodes,
                code=code if printed_for == graph else gm.print_readable(print_output=False),
                frame=self._frame(graph, output_graph),
            )
        )

    def _frame(self, graph: str, output_graph: Any) -> Location | None:
        """The frame that is compiled; for the rest of a function after a break, the line from which it goes on. None
        for a graph that compiled autograd wrote."""
        code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
        if code is None or (backward_number(graph) and code.co_filename.startswith(_WRITTEN)):
            return None
        return self._project.location(code.co_filename, code.co_firstlineno, code.co_name)


def _first_names(nodes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Dynamo names a node after its function, notes that name as its source's, and renames it after the user's
    variable at the end; all that torch does later keeps the source."""
    for node in nodes:
        functions = node.meta.get("source_fn_stack")
        if functions:
            yield str(functions[-1][0]), node.name
