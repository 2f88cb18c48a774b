"""The first difference between the graphs of two ranks."""

from __future__ import annotations

import re
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.rank_events import DivergenceKind
from tcexplore.session.communication import is_collective
from tcexplore.traces.graph_text import CALLS
from tcexplore.traces.rank_normal import follows_rank, normalize

_LITERAL = re.compile(r"'[^']*'|(?<![\w%.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])|\b(?:True|False|None)\b")


class GraphDifference(NamedTuple):
    """Where two graphs differ first."""

    kind: DivergenceKind
    detail: str
    mine: str
    other: str
    my_line: ev.Location | None
    other_line: ev.Location | None
    constants_only: bool = False
    """Whether a node has other constants, but calls the same function on the same values."""


class RankNodes(NamedTuple):
    """The nodes of one rank's graph."""

    nodes: tuple[ev.FxNode, ...]
    rank: int
    reads_rank: bool
    """Whether constants may follow the rank in any op, not only where it takes a part of a tensor."""


def graph_difference(mine: RankNodes, other: RankNodes) -> GraphDifference | None:
    """Return the first difference, None if the graphs do the same."""
    my_calls = [node for node in mine.nodes if node.op in CALLS]
    other_calls = [node for node in other.nodes if node.op in CALLS]
    my_names, other_names = _Names(mine.nodes), _Names(other.nodes)
    inputs = _input_difference(mine, other)
    for a, b in zip(my_calls, other_calls, strict=False):
        if inputs is not None and inputs.my_line == a.location and a.target == b.target:
            return inputs
        difference = _node_difference(a, b, mine, other, my_names, other_names)
        if difference is not None:
            return inputs if inputs is not None and difference.kind in ("shape", "dtype") else difference
    if inputs is not None:
        return inputs
    if len(my_calls) != len(other_calls):
        return _extra(my_calls, other_calls, mine, other)
    return None


class _Names:
    """Names of nodes by their position, so that equal graphs with other names are equal."""

    def __init__(self, nodes: tuple[ev.FxNode, ...]) -> None:
        calls = [node.name for node in nodes if node.op in CALLS]
        self._numbers = {name: f"%{number}" for number, name in enumerate(calls)}

    def args(self, node: ev.FxNode) -> str:
        """Return a node's call with numbers for the nodes that it reads; inputs keep their names."""
        text = re.sub(r"[A-Za-z_]\w*", lambda match: self._numbers.get(match[0], match[0]), node.args)
        return normalize(f"{node.target}({text})")


def _input_difference(mine: RankNodes, other: RankNodes) -> GraphDifference | None:
    """Return the first input with another type or size; an input with another name may be another tensor."""
    others = {node.name: node for node in other.nodes if node.op == "placeholder"}
    for node in mine.nodes:
        match = others.get(node.name) if node.op == "placeholder" else None
        if match is not None and (kind := _value_kind(node, match)):
            line, other_line = _reader(mine.nodes, node.name), _reader(other.nodes, node.name)
            name = node.target
            return GraphDifference(
                kind, f"input {name} has another {kind}", f"{name}: {_value(node)}", f"{name}: {_value(match)}",
                line, other_line,
            )  # fmt: skip
    return None


def _reader(nodes: tuple[ev.FxNode, ...], name: str) -> ev.Location | None:
    return next((node.location for node in nodes if name in node.inputs and node.location), None)


def _value_kind(a: ev.FxNode, b: ev.FxNode) -> DivergenceKind | None:
    if a.dtype != b.dtype and a.dtype and b.dtype:
        return "dtype"
    return "shape" if a.shape != b.shape and a.shape is not None and b.shape is not None else None


def _value(node: ev.FxNode) -> str:
    return f"{node.dtype}[{', '.join(node.shape or ())}]" if node.dtype else "no tensor"


def _node_difference(
    a: ev.FxNode, b: ev.FxNode, mine: RankNodes, other: RankNodes, my_names: _Names, other_names: _Names
) -> GraphDifference | None:
    my_text, other_text = my_names.args(a), other_names.args(b)
    follows = mine.reads_rank or other.reads_rank
    if my_text != other_text and not follows_rank(my_text, other_text, mine.rank, other.rank, slicing_only=not follows):
        kind: DivergenceKind = "branch"
        if is_collective(a) or is_collective(b):
            both = is_collective(a) and is_collective(b)
            kind = "collective order" if both or _same_collectives(mine.nodes, other.nodes) else "branch"
        detail = "the collectives have another order" if kind == "collective order" else "the traced code differs"
        constants = a.target == b.target and _LITERAL.sub("#", my_text) == _LITERAL.sub("#", other_text)
        return GraphDifference(kind, detail, _call(a), _call(b), a.location, b.location, constants)
    value = _value_kind(a, b)
    if value is not None:
        detail = f"the result of {a.target} has another {value}"
        return GraphDifference(
            value, detail, f"{a.name}: {_value(a)}", f"{b.name}: {_value(b)}", a.location, b.location
        )
    return None


def _same_collectives(mine: tuple[ev.FxNode, ...], other: tuple[ev.FxNode, ...]) -> bool:
    sides = (sorted(node.target for node in nodes if is_collective(node)) for nodes in (mine, other))
    return next(sides) == next(sides)


def _call(node: ev.FxNode) -> str:
    return f"{node.target}({node.args})"


def _extra(mine: list[ev.FxNode], other: list[ev.FxNode], my_side: RankNodes, other_side: RankNodes) -> GraphDifference:
    at = min(len(mine), len(other))
    a, b = (mine[at] if at < len(mine) else None), (other[at] if at < len(other) else None)
    extra = a or b
    kind: DivergenceKind = "branch"
    if extra is not None and is_collective(extra) and _same_collectives(my_side.nodes, other_side.nodes):
        kind = "collective order"
    return GraphDifference(
        kind, "one graph has more ops", _call(a) if a else "the graph ends", _call(b) if b else "the graph ends",
        a.location if a else None, b.location if b else None,
    )  # fmt: skip
