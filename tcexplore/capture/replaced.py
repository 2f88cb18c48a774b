"""Nodes that Inductor's pattern matcher put in the place of others: torch keeps no stack trace with some of them."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks

_MATCHED = "tcexplore_matched"
_ENTRIES = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")


def install(hooks: Hooks) -> None:
    """Note with each new node that has no stack trace the nodes that it replaces."""
    unplaced: list[set[Any]] = []

    def replacing(_entry: Any, _match: Any, graph: Any, *_: Any, **__: Any) -> None:
        unplaced.append(_without_stack(graph))

    def replaced(_result: Any, _entry: Any, match: Any, graph: Any, *_: Any, **__: Any) -> None:
        for node in _without_stack(graph) - unplaced.pop():
            node.meta[_MATCHED] = tuple(match.nodes)

    for entry in _ENTRIES:
        symbol = f"torch._inductor.pattern_matcher:{entry}.apply"
        hooks.watch("lines of replaced nodes", symbol, before=replacing, after=replaced)


def _without_stack(graph: Any) -> set[Any]:
    return {node for node in graph.nodes if node.op == "call_function" and not node.stack_trace}


def sources(node: Any) -> tuple[Any, ...]:
    """The nodes that know where a node is from: itself, or those that it replaced."""
    if node.stack_trace or _MATCHED not in node.meta:
        return (node,)
    return tuple(dict.fromkeys(source for matched in node.meta[_MATCHED] for source in sources(matched)))
