"""Differences between ranks in graphs, and in what Inductor makes of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.rank_events import DivergenceKind
from tcexplore.session.communication import is_collective
from tcexplore.torch_text.cache_key_text import key_digests
from tcexplore.torch_text.dynamo_names import readable_input
from tcexplore.traces.environment_differences import Difference
from tcexplore.traces.graph_text import CALLS, read_graph
from tcexplore.traces.inductor_records import tuned_configuration
from tcexplore.traces.kernel_records import CommentBlock, read_wrapper
from tcexplore.traces.rank_fingerprint import CacheTimes, ComparedRecord, RankFingerprint, kernel_choices
from tcexplore.traces.rank_normalization import follows_rank, normalize
from tcexplore.traces.record_index import decode_json

_LITERAL = re.compile(r"'[^']*'|(?<![\w%.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])|\b(?:True|False|None)\b")


class RankNodes(NamedTuple):
    """The nodes of one rank's graph."""

    nodes: tuple[ev.FxNode, ...]
    rank: int
    reads_rank: bool
    """Whether constants may follow the rank in any op, not only where it takes a part of a tensor."""


def graph_difference(mine: RankNodes, other: RankNodes) -> Difference | None:
    """Return the first difference, None if the graphs do the same."""
    my_calls = [node for node in mine.nodes if node.op in CALLS]
    other_calls = [node for node in other.nodes if node.op in CALLS]
    my_names, other_names = _Names(mine.nodes), _Names(other.nodes)
    inputs = _input_difference(mine, other)
    before: ev.Location | None = None
    for a, b in zip(my_calls, other_calls, strict=False):
        if inputs is not None and inputs.my_line == a.location and a.target == b.target:
            return inputs
        difference = _node_difference(a, b, mine, other, my_names, other_names)
        if difference is not None:
            if inputs is not None and difference.kind in ("shape", "dtype"):
                return inputs
            return difference._replace(before=before)
        before = a.location
    if inputs is not None:
        return inputs
    if len(my_calls) != len(other_calls):
        return _extra(my_calls, other_calls, mine, other)._replace(before=before)
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


def _input_difference(mine: RankNodes, other: RankNodes) -> Difference | None:
    """Return the first input with another type or size; an input with another name may be another tensor."""
    others = {node.name: node for node in other.nodes if node.op == "placeholder"}
    for node in mine.nodes:
        match = others.get(node.name) if node.op == "placeholder" else None
        if match is not None and (kind := _value_kind(node, match)):
            line, other_line = _reader(mine.nodes, node.name), _reader(other.nodes, node.name)
            name = readable_input(node.target)
            return Difference(
                kind, "", f"input {name} has another {kind}", f"{name}: {_value(node)}", f"{name}: {_value(match)}",
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
) -> Difference | None:
    my_text, other_text = my_names.args(a), other_names.args(b)
    follows = mine.reads_rank or other.reads_rank
    if my_text != other_text and not follows_rank(my_text, other_text, mine.rank, other.rank, slicing_only=not follows):
        kind: DivergenceKind = "branch"
        if is_collective(a) or is_collective(b):
            both = is_collective(a) and is_collective(b)
            kind = "collective order" if both or _same_collectives(mine.nodes, other.nodes) else "branch"
        detail = (
            "the collectives are called in different orders"
            if kind == "collective order"
            else "the traced code differs"
        )
        constants = a.target == b.target and _LITERAL.sub("#", my_text) == _LITERAL.sub("#", other_text)
        texts = call_text(a), call_text(b)
        return Difference(kind, "", detail, *texts, a.location, b.location, constants_only=constants)
    value = _value_kind(a, b)
    if value is not None:
        detail = f"the result of {a.target} has another {value}"
        return Difference(value, "", detail, f"{a.name}: {_value(a)}", f"{b.name}: {_value(b)}", a.location, b.location)
    return None


def _same_collectives(mine: tuple[ev.FxNode, ...], other: tuple[ev.FxNode, ...]) -> bool:
    sides = (sorted(node.target for node in nodes if is_collective(node)) for nodes in (mine, other))
    return next(sides) == next(sides)


def call_text(node: ev.FxNode) -> str:
    """Return a node as a call: `_c10d_functional.all_reduce(x, 'sum', '0')`."""
    return f"{node.target}({node.args})"


GRAPH_ENDS = "the graph ends"
"""A side without a further op; its line is that of the function."""


def _extra(mine: list[ev.FxNode], other: list[ev.FxNode], my_side: RankNodes, other_side: RankNodes) -> Difference:
    at = min(len(mine), len(other))
    a, b = (mine[at] if at < len(mine) else None), (other[at] if at < len(other) else None)
    extra = a or b
    kind: DivergenceKind = "branch"
    if extra is not None and is_collective(extra) and _same_collectives(my_side.nodes, other_side.nodes):
        kind = "collective order"
    return Difference(
        kind, "", "one graph has more ops", call_text(a) if a else GRAPH_ENDS, call_text(b) if b else GRAPH_ENDS,
        a.location if a else None, b.location if b else None,
    )  # fmt: skip


_RACE_NOTE = "Some ranks found in the cache what other ranks had just written."


class InductorPair:
    """Compares what Inductor did in one compile of two ranks."""

    def __init__(self, mine: RankFingerprint, other: RankFingerprint, times: CacheTimes, notes: list[str]) -> None:
        self._mine = mine
        self._other = other
        self._times = times
        self._notes = notes

    def schedules(self, graph: str) -> Difference | None:
        mine, other = (self._schedule(side, graph) for side in (self._mine, self._other))
        if not mine or not other:
            return None  # a graph from a cache has no schedule
        for number in range(max(len(mine), len(other))):
            a, b = (ops[number] if number < len(ops) else "no further collective" for ops in (mine, other))
            if a != b:
                detail = f"collective {number + 1} of the schedule differs"
                return Difference("collective order", graph, detail, a, b, *_lines(self._mine, self._other, graph))
        return None

    @staticmethod
    def _schedule(side: RankFingerprint, graph: str) -> list[str]:
        ops: list[str] = []
        for item in side.of(graph, "inductor_collective_schedule"):
            try:
                schedule = decode_json(side.payload(item) or "[]")
            except ValueError:
                continue
            ops += [str(op) for op in schedule] if isinstance(schedule, list) else []
        return ops

    def caches(self, graph: str) -> Difference | None:
        """Compare the outcomes of lookups; a hit of what another rank has just written counts as a miss."""
        races = [self._times.is_race(side, graph) for side in (self._mine, self._other)]
        if any(races) and _RACE_NOTE not in self._notes:
            self._notes.append(_RACE_NOTE)
        mine, other = self._mine.of(graph, "cache"), self._other.of(graph, "cache")
        for number in range(max(len(mine), len(other))):
            a, b = (items[number] if number < len(items) else None for items in (mine, other))
            outcomes = [_outcome(item, race=race) for item, race in zip((a, b), races, strict=True)]
            if outcomes[0] == outcomes[1]:
                continue
            if any(races) and "hit" not in outcomes:
                return None
            detail = self._key_difference(a, b) or "one side has the result in its cache"
            texts = [item.record.kind.replace("_", " ") if item else "no lookup" for item in (a, b)]
            return Difference("cache", graph, detail, texts[0], texts[1], *_lines(self._mine, self._other, graph))
        return None

    def _key_difference(self, a: ComparedRecord | None, b: ComparedRecord | None) -> str:
        if a is None or b is None:
            return ""
        mine, other = key_digests(self._mine.json(a)), key_digests(self._other.json(b))
        names = [name for name in mine if name in other and mine[name] != other[name]]
        return f"the cache keys differ in {', '.join(names[:4])}" if names and len(names) <= len(mine) // 2 else ""

    def tuning(self, graph: str) -> Difference | None:
        mine, other = (self._configurations(side, graph) for side in (self._mine, self._other))
        for name, winner in mine.items():
            if name in other and other[name] != winner:
                detail = f"autotuning of {name} chose another configuration"
                lines = self._kernel_lines(graph, (name,))
                return Difference("autotuning", graph, detail, winner, other[name], *lines)
        return None

    @staticmethod
    def _configurations(side: RankFingerprint, graph: str) -> dict[str, str]:
        return {
            str(name): winner
            for item in side.of(graph, "triton_kernel_info")
            for name, kernel in side.json(item).items()
            if isinstance(kernel, dict) and (winner := tuned_configuration(kernel))
        }

    def kernels(self, graph: str, *, caches_differ: bool) -> Difference | None:
        """Compare the generated kernels and library calls, if both sides generated them."""
        if caches_differ:
            return None
        pairs = zip(
            self._mine.of(graph, "inductor_output_code"), self._other.of(graph, "inductor_output_code"), strict=False
        )
        for a, b in pairs:
            mine, other = (kernel_choices(side.payload(item)) for side, item in ((self._mine, a), (self._other, b)))
            for x, y in zip([*mine, ""], [*other, ""], strict=False):
                if x != y:
                    detail = "autotuning chose other kernels or configurations for the same graph"
                    texts = (x or "no further kernel", y or "no further kernel")
                    return Difference("autotuning", graph, detail, *texts, *self._kernel_lines(graph, (x, y)))
        return None

    def _kernel_lines(self, graph: str, names: tuple[str, ...]) -> tuple[ev.Location | None, ev.Location | None]:
        """Return, for each side, the user's line of the first op in one of these kernels or calls."""
        lines = [_op_line(side, graph, names) for side in (self._mine, self._other)]
        users = _lines(self._mine, self._other, graph)
        return lines[0] or lines[1] or users[0], lines[1] or lines[0] or users[1]


def _op_line(side: RankFingerprint, graph: str, names: tuple[str, ...]) -> ev.Location | None:
    """Return the line of the first op that one of these kernels or calls computes, by Inductor's comments."""
    sources: set[str] = set()
    for item in side.of(graph, "inductor_output_code"):
        wrapper = read_wrapper(side.payload(item))
        for call in wrapper.made:
            name = next((name for name in names if name and call.name.startswith(name)), None)
            if name is not None:
                sources.update(call.comment.source_nodes, wrapper.comments.get(name, CommentBlock()).source_nodes)
    for item in side.of(graph, "dynamo_output_graph") if sources else ():
        for node in read_graph(side.payload(item), side.sources.place):
            if node.name in sources and node.location is not None:
                return node.location
    return None


def _outcome(item: ComparedRecord | None, *, race: bool) -> str:
    if item is None:
        return ""
    outcome = item.record.kind.rpartition("_")[2]
    return "miss" if race and outcome == "hit" else outcome


def _lines(mine: RankFingerprint, other: RankFingerprint, graph: str) -> tuple[ev.Location | None, ev.Location | None]:
    return mine.user_line(graph), other.user_line(graph)
