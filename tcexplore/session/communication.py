"""Collectives of a run in the order in which its graphs call them, and the kernels that overlap with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.code import lowest
from tcexplore.session.snapshot import Snapshot

_COLLECTIVE = re.compile(
    r"(?:_c10d_functional(?:_autograd)?|c10d_functional|torch\.distributed|c10d)\.(?!wait_tensor)\w+"
)
_GROUP = re.compile(r"'([^']*)'\s*$")

_CALL = re.compile(r"^\s+(?:(\w+) = )?torch\.ops\._?c10d_functional(?:_autograd)?\.(\w+)(?:\.\w+)?\((.*)$")
_KERNEL = re.compile(
    r"^\s+(?:\w+ = )?((?:cpp|triton)_\w+|extern_kernels\.\w+|aten\.\w+|torch\.ops\.(?!_?c10d)[\w.]+)(?:\.run)?\("
)
_ALIAS = re.compile(r"^\s+(\w+) = (?:reinterpret_tensor\()?(\w+)(?:\[\d+\]|;|,|\s|$)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OUT = re.compile(r"\bout=(\w+)")


class CollectiveCall(NamedTuple):
    """One collective of a graph."""

    graph: str
    phase: str
    op: str
    group: str
    """Name of the process group; empty if unknown."""
    bytes: int | None
    """Size of its result; None if symbolic."""
    node: ev.FxNode
    overlapping_kernels: tuple[str, ...] | None = None
    """Kernels that the generated code calls between its start and its wait; None if unknown."""
    estimate_us: float | None = None
    """torch's estimate of its time."""
    exposed_us: float | None = None
    """Part of the estimate that exceeds torch's estimates of the overlapping kernels."""

    @property
    def location(self) -> ev.Location | None:
        """The user's line."""
        return self.node.location


def is_collective(node: ev.FxNode) -> bool:
    """Return whether a node communicates; waiting for the result is another node."""
    return node.op in ("call_function", "call_method") and names_collective(node.target)


def names_collective(call: str) -> bool:
    """Return whether the text of a call begins with the name of a collective."""
    return _COLLECTIVE.match(call) is not None


def is_wait(node: ev.FxNode) -> bool:
    """Return whether a node waits for the result of a collective."""
    return node.op == "call_function" and node.target.endswith("c10d_functional.wait_tensor")


def collective_calls(snapshot: Snapshot) -> Iterator[CollectiveCall]:
    """Yield the collectives of each graph, from its last known stage."""
    lowered = {(graph.graph, graph.phase): graph.nodes for graph in lowest(snapshot.code.aten_graphs) if graph.nodes}
    known = {graph for graph, _ in lowered}
    graphs: list[tuple[str, ev.GraphPhase, Sequence[ev.FxNode]]] = [(*key, nodes) for key, nodes in lowered.items()]
    graphs += [(graph.graph, "forward", graph.nodes) for graph in snapshot.graphs if graph.graph not in known]
    scheduled = _scheduled(snapshot)
    for graph, phase, nodes in graphs:
        calls = list(filter(is_collective, nodes))
        starts = scheduled.get((graph, phase), ())
        names = [node.target.removesuffix(".default").rpartition(".")[2] for node in calls]
        # Inductor may move a collective before another one.
        same = [start.op.rstrip("_") for start in starts] == [name.rstrip("_") for name in names]
        for node, name, start in zip(calls, names, starts if same else [_Start() for _ in calls], strict=True):
            group = _GROUP.search(node.args)
            yield CollectiveCall(
                graph, phase, name, group[1] if group else "", node.tensor_bytes, node,
                start.overlapping_kernels, start.estimate_us, start.exposed_us,
            )  # fmt: skip


# ---- the generated code


class _Start(NamedTuple):
    """A collective in generated code."""

    op: str = ""
    overlapping_kernels: tuple[str, ...] | None = None
    wait: int | None = None
    """Number of its first wait among the waits of the module."""
    estimate_us: float | None = None
    exposed_us: float | None = None


def _scheduled(snapshot: Snapshot) -> Mapping[tuple[str, ev.GraphPhase], Sequence[_Start]]:
    """Return the collectives of each generated module in order, with torch's estimates if it recorded them."""
    estimates: dict[str, list[ev.OpEstimates]] = {}
    for event in snapshot.op_estimates:
        estimates.setdefault(event.graph, []).append(event)
    modules: Counter[str] = Counter()
    starts: dict[tuple[str, ev.GraphPhase], Sequence[_Start]] = {}
    for wrapper in snapshot.code.wrappers:
        known = estimates.get(wrapper.graph, ())[modules[wrapper.graph] :]
        modules[wrapper.graph] += 1
        own = starts_of(wrapper.source)
        starts[wrapper.graph, wrapper.phase] = _with_estimates(own, known[0].ops) if known else own
    return starts


def starts_of(module: str) -> list[_Start]:
    """Return the collectives of a generated module in the order of their calls."""
    starts: list[_Start] = []
    pending: dict[int, list[str]] = {}
    values: dict[str, int] = {}
    """The collective whose result a buffer holds."""
    waits = 0
    for line in module[max(0, module.find("def call(")) :].split("\n"):
        if line.startswith("def benchmark_compiled_module"):
            break
        if call := _CALL.match(line):
            first = _NAME.search(call[3])
            if call[2] == "wait_tensor":
                number = values.get(first[0]) if first else None
                if number in pending:
                    starts[number] = _Start(starts[number].op, tuple(pending.pop(number)), waits)
                waits += 1
                continue
            out = _OUT.search(call[3])
            for name in (call[1], out[1] if out else None, first[0] if first and call[2].endswith("_") else None):
                values |= {name: len(starts)} if name else {}
            pending[len(starts)] = []
            starts.append(_Start(call[2]))
        elif kernel := _KERNEL.match(line):
            for kernels in pending.values():
                kernels.append(kernel[1])
        elif (alias := _ALIAS.match(line)) and alias[2] in values:
            values[alias[1]] = values[alias[2]]
    return starts


def _with_estimates(starts: Sequence[_Start], ops: Sequence[ev.OpEstimate]) -> list[_Start]:
    """Add the estimates of a schedule, unless it has other collectives."""
    calls = [number for number, op in enumerate(ops) if op.collective]
    waits = [number for number, op in enumerate(ops) if "wait_tensor" in op.name]
    if len(calls) != len(starts):
        return list(starts)
    timed: list[_Start] = []
    for at, start in zip(calls, starts, strict=True):
        end = waits[start.wait] if start.wait is not None and start.wait < len(waits) else at
        hidden = sum(op.us for op in ops[at:end] if not op.collective)
        timed.append(start._replace(estimate_us=ops[at].us, exposed_us=max(0.0, ops[at].us - hidden)))
    return timed
