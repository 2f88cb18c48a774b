"""Decomposition of each op of user code: Dynamo node → ATen nodes → statements of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.graph_stages import lowest

Line = tuple[str, int]
"""File and line number."""

_CALLS = ("call_function", "call_method", "call_module")


class Statement(NamedTuple):
    """Line `n` (1-based) of a kernel's source."""

    kernel: ev.Kernel
    n: int


class Lowered(NamedTuple):
    """A node of the last known stage below Dynamo's, with its kernels and statements.

    A node without kernels does no work, such as a view, or its kernels are unknown.
    """

    graph: str
    phase: str
    node: ev.FxNode
    kernels: tuple[ev.Kernel, ...]
    statements: tuple[Statement, ...]


class Op(NamedTuple):
    """An op of a Dynamo graph and the nodes that it was lowered to."""

    graph: str
    node: ev.FxNode | None
    """None for nodes without a known Dynamo node."""
    lowered: tuple[Lowered, ...]
    """Forward and backward."""


class Decomposition:
    """Ops of a run by line of user code.

    `lines` is in the order of the graphs; the key None has the ops of unknown line.
    """

    def __init__(
        self, graphs: Iterable[ev.GraphCaptured], aten: Iterable[ev.AtenGraph], kernels: Iterable[ev.Kernel]
    ) -> None:
        self._kernels: dict[tuple[str, str, str], list[ev.Kernel]] = {}
        self._statements: dict[tuple[str, str, str], list[Statement]] = {}
        for kernel in kernels:
            self._kernel(kernel)
        self._of: dict[tuple[str, str], list[Lowered]] = {}
        self.lines: dict[Line | None, list[Op]] = {}
        rootless = [lowered for graph in lowest(aten) for lowered in self._lower(graph)]
        for graph in graphs:
            for node in graph.all_nodes:
                if node.op in _CALLS:
                    lowered = tuple(self._of.get((graph.graph, node.name), ()))
                    self.lines.setdefault(_line(node), []).append(Op(graph.graph, node, lowered))
        for line, graph_id, several in _by_line(rootless):
            self.lines.setdefault(line, []).append(Op(graph_id, None, tuple(several)))

    def _kernel(self, kernel: ev.Kernel) -> None:
        for name in kernel.nodes:
            self._kernels.setdefault((kernel.graph, kernel.phase, name), []).append(kernel)
        for line in kernel.lines:
            for name in line.nodes:
                of = self._statements.setdefault((kernel.graph, kernel.phase, name), [])
                of.append(Statement(kernel, line.n))

    def _lower(self, graph: ev.AtenGraph) -> Iterable[Lowered]:
        """Record the lowered nodes of each Dynamo node, and yield those without one."""
        for node in graph.all_nodes:
            if node.op not in _CALLS:
                continue
            key = graph.graph, graph.phase, node.name
            kernels, statements = self._kernels.get(key, ()), self._statements.get(key, ())
            lowered = Lowered(graph.graph, graph.phase, node, tuple(kernels), tuple(statements))
            for origin in node.origins:
                self._of.setdefault((graph.graph, origin), []).append(lowered)
            if not node.origins:
                yield lowered


def _line(node: ev.FxNode) -> Line | None:
    return (node.location.file, node.location.line) if node.location else None


def _by_line(rootless: Iterable[Lowered]) -> Iterable[tuple[Line | None, str, list[Lowered]]]:
    groups: dict[tuple[Line | None, str], list[Lowered]] = {}
    for lowered in rootless:
        groups.setdefault((_line(lowered.node), lowered.graph), []).append(lowered)
    return ((line, graph, several) for (line, graph), several in groups.items())


def count_lowered(ops: Iterable[Op]) -> Mapping[str, int]:
    """Count ops, and their nodes, kernels and statements."""
    known = list(ops)
    lowered = {(low.graph, low.phase, low.node.name): low for op in known for low in op.lowered}
    kernels = {(k.graph, k.phase, k.name) for low in lowered.values() for k in low.kernels}
    statements = {
        (s.kernel.graph, s.kernel.phase, s.kernel.name, s.n) for low in lowered.values() for s in low.statements
    }
    return {"ops": len(known), "nodes": len(lowered), "kernels": len(kernels), "statements": len(statements)}
