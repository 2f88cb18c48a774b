"""Every time that a compiled graph is run: Dynamo's bytecode calls it through a global of the user's module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions.untraced import untraced
from tcexplore.capture.user_files import is_resumed

FACT = "how often a compiled graph is run"
SYMBOL = "torch._dynamo.output_graph:OutputGraph.install_global_unsafe"

_GRAPH = "__compiled_fn"

Entered = Callable[[bool], None]


def install(hooks: Hooks, entered: Entered) -> bool:
    """Call `entered(resumed)` whenever a graph is run, `resumed` where it goes on behind a graph break.

    Returns whether this torch lets one know.
    """

    def installed(_result: Any, output_graph: Any, name: str, value: Any) -> None:
        if name.startswith(_GRAPH):
            code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
            resumed = code is not None and is_resumed(code.co_name)
            output_graph.global_scope[name] = _counting(value, resumed, entered)

    return hooks.watch(FACT, SYMBOL, after=installed)


def _counting(graph: Callable[..., Any], resumed: bool, entered: Entered) -> Callable[..., Any]:
    def graph_entry(*args: Any) -> Any:
        entered(resumed)
        return graph(*args)

    return untraced(graph_entry)
