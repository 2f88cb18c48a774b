"""A graph as lines of text, over and over again while passes work on it: only what changed is written anew."""

from __future__ import annotations

from typing import Any, NamedTuple

from tcexplore.capture.fx.fx_args import args_text, target_text


class _Written(NamedTuple):
    """A node's line, and what it was written from: a pass that changes a node gives it other objects."""

    name: str
    target: Any
    args: Any
    kwargs: Any
    line: str


class GraphText:
    """Remembers the lines of nodes."""

    def __init__(self) -> None:
        self._known: dict[Any, _Written] = {}

    def lines(self, graph: Any) -> list[str]:
        """One line a node: `name = target(args)`."""
        return [self._line(node) for node in graph.nodes]

    def _line(self, node: Any) -> str:
        known = self._known.get(node)
        if (
            known is None
            or known.args is not node.args
            or known.kwargs is not node.kwargs
            or known.target is not node.target
            or known.name != node.name
        ):
            known = _Written(node.name, node.target, node.args, node.kwargs, _written(node))
            self._known[node] = known
        return known.line


def _written(node: Any) -> str:
    if node.op == "placeholder":
        return f"{node.name} = {node.op}"
    if node.op == "output":
        return f"{node.op}({args_text(node)})"
    if node.op == "get_attr":
        return f"{node.name} = {node.target}"
    return f"{node.name} = {target_text(node)}({args_text(node)})"
