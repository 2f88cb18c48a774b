"""Nodes that Inductor's passes put in the place of others.

torch keeps no stack trace with some of the new ones; and where an old node takes the place of one that did nothing, it
is given that one's metadata over its own.
"""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks

_FACT = "lines of nodes that passes put in"
_REPLACED = "tcexplore_replaced"
_OWN = "tcexplore_own:"
_KEPT = ("stack_trace", "from_node", "source_fn_stack", "fwd_source_fn_stack", "nn_module_stack", "original_aten")
_ENTRIES = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")


def install(hooks: Hooks) -> None:
    """Note with each new node that has no stack trace the nodes that it replaces, with an old one what it was."""
    unplaced: list[set[Any]] = []

    def replacing(_entry: Any, _match: Any, graph: Any, *_: Any, **__: Any) -> None:
        unplaced.append(_without_stack(graph))

    def replaced(_result: Any, _entry: Any, match: Any, graph: Any, *_: Any, **__: Any) -> None:
        for node in _without_stack(graph) - unplaced.pop():
            node.meta[_REPLACED] = tuple(match.nodes)

    def taking_over(old: Any, new: Any, *_: Any, **__: Any) -> None:
        # A number takes the place of a symbol that torch fixes.
        if getattr(new, "op", "") != "call_function":
            return
        if new.stack_trace:
            # With its name: the metadata that is written over it may hold the same of the other node.
            new.meta.setdefault(_OWN + new.name, {key: new.meta[key] for key in _KEPT if key in new.meta})
        elif old not in new.meta.get(_REPLACED, ()):
            new.meta[_REPLACED] = (*new.meta.get(_REPLACED, ()), old)

    for entry in _ENTRIES:
        symbol = f"torch._inductor.pattern_matcher:{entry}.apply"
        hooks.watch(_FACT, symbol, before=replacing, after=replaced)
    hooks.watch(_FACT, "torch.fx.node:Node.replace_all_uses_with", before=taking_over)


def _without_stack(graph: Any) -> set[Any]:
    return {node for node in graph.nodes if node.op == "call_function" and "stack_trace" not in node.meta}


class _AsMade:
    """A node with its own metadata, in the place of what a pass wrote over it."""

    def __init__(self, node: Any, own: dict[str, Any]) -> None:
        self._node = node
        self.meta = {**{key: value for key, value in node.meta.items() if key not in _KEPT}, **own}
        self.stack_trace = own.get("stack_trace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def as_made(node: Any) -> Any:
    """The node as the pass or the tracer that made it left it."""
    own = node.meta.get(_OWN + node.name)
    return node if own is None else _AsMade(node, own)


def sources(node: Any) -> tuple[Any, ...]:
    """The nodes that know where a node is from: itself, or those that it replaced."""
    found, pending, seen = {}, [node], set()
    while pending:
        current = pending.pop(0)
        earlier = () if current.stack_trace else _earlier(current)
        if not earlier:
            found[current] = as_made(current)
        elif current not in seen:
            seen.add(current)
            pending.extend(earlier)
    return tuple(found.values())


def _earlier(node: Any) -> tuple[Any, ...]:
    """The nodes that one without a stack trace replaced. The `copy_` by which AOTAutograd gives an input its new value
    at the end of the graph has none either: it is from where that value is from."""
    if node.op == "call_function" and getattr(node.target, "__name__", "") == "copy_.default":
        return tuple(node.args[1:2])
    return tuple(node.meta.get(_REPLACED, ()))
