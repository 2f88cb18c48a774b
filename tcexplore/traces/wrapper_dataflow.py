"""The post-grad nodes of the calls in a generated module, from the buffers that the calls read and write.

Inductor's comments name the ops of a library call and of its inputs together, and C++ kernels may have no comment. The
buffers decide: a call whose arguments are known values is the node with these inputs, and what a kernel stores is what
its readers read. A call that more than one node fits gets none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from tcexplore.events import FxNode
from tcexplore.torch_text.kernel_source import KernelSource

_ASSIGNED = re.compile(r"^(\w+) = (.*)$", re.S)
_COPIED = re.compile(r"^(\w+)\.copy_\(")
_REINTERPRETED = re.compile(r"^reinterpret_tensor\((\w+),")
_ITEM = re.compile(r"^(\w+)\[\d+\]$")
_NAME = re.compile(r"\w+")
_KEYWORD = re.compile(r"^\w+=")
_OUT = re.compile(r"^out=(.+)$", re.S)
_TRITON_PARAMETERS = re.compile(r"^def triton_\w*\(([^)]*)\)", re.M)
_CPP_SIGNATURE = re.compile(r"void\s+\w+\(([^{]*)\)\s*\{")
_CPP_PARAMETER = re.compile(r"(?:\*\s*(?:__restrict__\s*)?|\bint64_t\s+)(\w+)")


@dataclass(slots=True)
class Value:
    """The content of a buffer from one store to the next."""

    node: str = ""
    """The node whose result it is, up to views; empty if unknown."""
    stored: bool = True
    """Whether anything was stored in it; not in memory that was only allocated."""
    read: bool = False
    """Whether a later call, or the graph's caller, reads it."""


@dataclass(slots=True)
class FlowCall:
    """A call with the values that it reads, in the order of its arguments, and those that it stores."""

    name: str
    op: str
    """ATen op of a library call; empty for a generated kernel."""
    reads: list[Value] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    """Names in Inductor's comment."""
    node: str = ""
    """The node of a library call, once it is known."""


class _PlacedCalls(NamedTuple):
    """The calls with known nodes; sets of nodes are bits in their order."""

    nodes: frozenset[str]
    needed_before: list[int]
    """By position: the nodes of all calls before it, and what these need."""
    after: list[int]
    """By position: the nodes of all calls after it."""


class Dataflow:
    """Matches the calls of one module with the nodes of its graph."""

    def __init__(self, nodes: Sequence[FxNode]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._order = {name: index for index, name in enumerate(self._nodes)}
        self._roots: dict[str, str] = {}
        self._by_op: dict[str, list[str]] = {}
        self._ancestors: dict[str, int] = {}
        for node in nodes:
            self._by_op.setdefault(node.packet, []).append(node.name)
            bits = 1 << self._order[node.name]
            for name in node.inputs:
                bits |= self._ancestors.get(name, 0)
            self._ancestors[node.name] = bits
        self.calls: list[FlowCall] = []
        self._placed: _PlacedCalls | None = None
        """The calls with known nodes; None once one more is known."""
        self._values: dict[str, Value] = {}

    # ---- the calls

    def value(self, name: str) -> Value:
        """Return the value that a buffer or an input holds now."""
        if name not in self._values:
            known = self._nodes.get(name)
            placeholder = known is not None and known.op == "placeholder"
            self._values[name] = Value(name if placeholder else "", stored=placeholder)
        return self._values[name]

    def alias(self, statement: str) -> None:
        """Learn that a buffer holds what another one holds: a view, an item, or reused memory."""
        match = _ASSIGNED.match(statement)
        if match is None:
            return
        text = match[2].split(";")[0].strip()
        other = _REINTERPRETED.match(text) or _ITEM.match(text) or re.fullmatch(r"(\w+)", text)
        if other and other[1] in self._values:
            self._values[match[1]] = self.value(other[1])

    def library_call(self, name: str, op: str, text: str, names: Iterable[str]) -> None:
        """Add a call of a library."""
        assigned = _ASSIGNED.match(text.split("\n")[0]) or _COPIED.match(text)
        call = FlowCall(name, op, names=frozenset(names))
        inside = text[text.index("(") + 1 :]
        for argument in split_arguments(inside):
            out = _OUT.match(argument)
            if out:
                target = self._argument(out[1])
                if target:
                    self._values[target] = Value()
                    call.writes.append(self._values[target])
            elif not _KEYWORD.match(argument) and (target := self._argument(argument)):
                call.reads.append(self.value(target))
        for value in call.reads:
            value.read = True
        if assigned and not call.writes:
            self._values[assigned[1]] = Value()
            call.writes.append(self._values[assigned[1]])
        self.calls.append(call)

    def kernel_call(self, name: str, source: KernelSource, text: str) -> None:
        """Add a call of a generated kernel."""
        roles = parameter_roles(source)
        call = FlowCall(name, "")
        stored: list[str] = []
        for argument, role in zip(split_arguments(text[text.index("(") + 1 :]), roles, strict=False):
            target = self._argument(argument)
            if not target:
                continue
            if "in" in role and self.value(target).stored:
                call.reads.append(self.value(target))
            if "out" in role:
                stored.append(target)
        for value in call.reads:
            value.read = True
        for target in stored:
            self._values[target] = Value()
            call.writes.append(self._values[target])
        self.calls.append(call)

    def returned(self, text: str) -> None:
        """Learn the results of the graph: the buffers that it returns, in order."""
        output = next((node for node in self._nodes.values() if node.op == "output"), None)
        arguments = split_arguments(text[text.index("(") + 1 :])
        names = output_names(output.args) if output is not None else []
        for argument, name in zip(arguments, names, strict=False):
            target = self._argument(argument)
            if target:
                self.value(target).read = True
            if target and name in self._nodes and not self.value(target).node:
                self.value(target).node = self.root(name)

    def _argument(self, text: str) -> str:
        """Return the buffer or input that an argument is, or is a view of; empty for any other."""
        match = _REINTERPRETED.match(text)
        name = match[1] if match else text
        return (
            name
            if _NAME.fullmatch(name) and (name in self._values or name.startswith("buf") or name in self._nodes)
            else ""
        )

    # ---- the nodes

    def root(self, name: str) -> str:
        """Return the node whose memory a node shows: views are followed."""
        if name not in self._roots:
            node = self._nodes.get(name)
            views = node is not None and node.is_view and node.inputs
            self._roots[name] = self.root(node.inputs[0]) if views and node is not None else name
        return self._roots[name]

    def solve(self) -> None:
        """Find the nodes of library calls; each one that is found tells more about the others."""
        while True:
            fitting = {at: self.candidates(at) for at, call in enumerate(self.calls) if call.op and not call.node}
            single = {at: names[0] for at, names in fitting.items() if len(names) == 1} or self._chains(fitting)
            taken: set[str] = set()
            for at, name in single.items():
                if name not in taken:
                    self._assign(self.calls[at], name)
                    taken.add(name)
            if not taken:
                return

    def candidates(self, position: int) -> list[str]:
        """Return the nodes that the library call at a position may be."""
        call = self.calls[position]
        if call.node:
            return [call.node]
        placed = self._placed = self._placed or self._place_calls()
        possible = [
            name
            for name in self._by_op.get(call.op, ())
            if name not in placed.nodes and self._in_order(placed, position, name)
        ]
        fitting = [name for name in possible if self._fits(call, name)]
        # A kernel may have copied an input into another layout.
        fitting = fitting or [name for name in possible if self._fits(call, name, copied=True)]
        named = [name for name in fitting if name in call.names]
        return named if len(named) == 1 else fitting

    def _chains(self, fitting: Mapping[int, Sequence[str]]) -> dict[int, str]:
        """Return the nodes of calls that fit the same nodes, if there are as many and each one needs the one before."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for at, names in fitting.items():
            groups.setdefault(tuple(sorted(names, key=self._order.__getitem__)), []).append(at)
        return {
            at: name
            for names, calls in groups.items()
            if len(names) == len(calls) > 1 and all(
                self._ancestors[after] & (1 << self._order[before]) for before, after in pairwise(names)
            )
            for at, name in zip(sorted(calls), names, strict=True)
        }  # fmt: skip

    def _fits(self, call: FlowCall, name: str, *, copied: bool = False) -> bool:
        node = self._nodes[name]
        roots = [self.root(source) for source in node.inputs]
        reads = call.reads[: len(roots)] if len(call.reads) >= len(roots) else call.reads
        if len(reads) != len(roots):
            return {read.node for read in reads if read.node} <= set(roots)
        return all(
            read.node == root if read.node else copied or self._nodes[root].op != "placeholder"
            for read, root in zip(reads, roots, strict=True)
            if root in self._nodes
        )

    def _in_order(self, placed: _PlacedCalls, position: int, name: str) -> bool:
        """Return whether a node can run at a position: nothing before needs it, and it needs nothing after."""
        needed_before = placed.needed_before[position] & (1 << self._order[name])
        return not needed_before and not self._ancestors[name] & placed.after[position]

    def _place_calls(self) -> _PlacedCalls:
        needed, later = [0], [0]
        for call in self.calls:
            needed.append(needed[-1] | (self._ancestors[call.node] if call.node else 0))
        for call in reversed(self.calls):
            later.append(later[-1] | (1 << self._order[call.node] if call.node else 0))
        names = frozenset(call.node for call in self.calls if call.node)
        return _PlacedCalls(names, needed[:-1], later[-2::-1])

    def _assign(self, call: FlowCall, name: str) -> None:
        call.node, self._placed = name, None
        for value in call.writes:
            value.node = name
        roots = [self.root(source) for source in self._nodes[name].inputs]
        if len(call.reads) >= len(roots):
            for read, root in zip(call.reads, roots, strict=False):
                read.node = read.node or root

    def kernel_nodes(self, call: FlowCall) -> tuple[str, ...]:
        """Return the nodes that a generated kernel computes: from what it stores back to what it reads.

        Empty if one of its values is unknown; memory that it only works in does not count.
        """
        stored = [value.node for value in call.writes if value.node or value.read]
        read = {value.node for value in call.reads}
        if not stored or not all(stored) or not all(read):
            return ()
        found: dict[str, None] = {}
        waiting = [name for name in stored if name not in read]
        while waiting:
            name = waiting.pop()
            node = self._nodes.get(name)
            if node is None or name in found or name in read or node.op == "placeholder":
                continue
            found[name] = None
            waiting += node.inputs
        computed = [name for name in found if self.root(name) == name] or list(found)
        return tuple(sorted(computed, key=self._order.__getitem__))


def split_arguments(text: str) -> Iterator[str]:
    """Yield the arguments of a call, up to its closing parenthesis."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                if text[start:at].strip():
                    yield text[start:at].strip()
                return
            depth -= 1
        elif char == "," and depth == 0:
            if text[start:at].strip():
                yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def output_names(text: str) -> list[str]:
    """Return the names in the result of a graph, in order; others, such as None, are empty."""
    inner = text.strip()
    while inner.startswith(("(", "[")):
        inner = inner[1:]
    return [name if name.isidentifier() and name != "None" else "" for name in split_arguments(inner + ")")]


def parameter_roles(source: KernelSource) -> list[str]:
    """Return `in`, `out` or `in out` for each parameter of a kernel."""
    match = _TRITON_PARAMETERS.search(source.text)
    if match is not None:
        names = [name.split(":")[0].strip() for name in match[1].split(",")]
    else:
        signature = _CPP_SIGNATURE.search(source.text)
        names = _CPP_PARAMETER.findall(signature[1]) if signature else []
    return [next((role for prefix, role in _ROLES if name.startswith(prefix)), "") for name in names]


_ROLES = (("in_out_ptr", "in out"), ("in_ptr", "in"), ("out_ptr", "out"))


class FlowStep(NamedTuple):
    """A statement of a generated module that matters to its buffers."""

    kind: Literal["alias", "return", "call"]
    text: str
    name: str = ""
    """Kernel that a call calls."""


def match_nodes(
    nodes: Sequence[FxNode], steps: Iterable[FlowStep], kernels: Mapping[str, KernelSource],
    ops: Mapping[str, str], comments: Iterable[Iterable[str]],
) -> Dataflow:  # fmt: skip
    """Return the calls of a module with their nodes.

    `ops` are the ATen ops of library calls, and `comments` the names in the comment of each call.
    """
    flow = Dataflow(nodes)
    named = iter(comments)
    for step in steps:
        if step.kind == "alias":
            flow.alias(step.text)
        elif step.kind == "return":
            flow.returned(step.text)
        elif (source := kernels.get(step.name)) is not None:
            next(named)
            flow.kernel_call(step.name, source, step.text)
        else:
            flow.library_call(step.name, ops[step.name], step.text, next(named))
    flow.solve()
    return flow
