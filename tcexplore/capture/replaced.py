"""Nodes that Inductor's passes put in the place of others: torch keeps no stack trace with some of them."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks

_FACT = "lines of nodes that passes put in"
_REPLACED = "tcexplore_replaced"
_ENTRIES = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")


def install(hooks: Hooks) -> None:
    """Note with each new node that has no stack trace the nodes that it replaces."""
    unplaced: list[set[Any]] = []

    def replacing(_entry: Any, _match: Any, graph: Any, *_: Any, **__: Any) -> None:
        unplaced.append(_without_stack(graph))

    def replaced(_result: Any, _entry: Any, match: Any, graph: Any, *_: Any, **__: Any) -> None:
        for node in _without_stack(graph) - unplaced.pop():
            node.meta[_REPLACED] = tuple(match.nodes)

    def taking_over(old: Any, new: Any, *_: Any, **__: Any) -> None:
        if new.op == "call_function" and not new.stack_trace and old not in new.meta.get(_REPLACED, ()):
            new.meta[_REPLACED] = (*new.meta.get(_REPLACED, ()), old)

    for entry in _ENTRIES:
        symbol = f"torch._inductor.pattern_matcher:{entry}.apply"
        hooks.watch(_FACT, symbol, before=replacing, after=replaced)
    hooks.watch(_FACT, "torch.fx.node:Node.replace_all_uses_with", before=taking_over)


def _without_stack(graph: Any) -> set[Any]:
    return {node for node in graph.nodes if node.op == "call_function" and not node.stack_trace}


def sources(node: Any) -> tuple[Any, ...]:
    """The nodes that know where a node is from: itself, or those that it replaced."""
    found, pending, seen = {}, [node], set()
    while pending:
        current = pending.pop(0)
        if current.stack_trace or _REPLACED not in current.meta:
            found[current] = None
        elif current not in seen:
            seen.add(current)
            pending.extend(current.meta[_REPLACED])
    return tuple(found)
