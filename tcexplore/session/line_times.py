"""Times of the lines of user code, and the memory traffic of their kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from tcexplore import events as ev

_SYMBOLIC_SIZE = 64
"""Stands for a symbolic size where only the ratio of two tensors matters."""

_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.convolution")


class PhaseLine(NamedTuple):
    """A line of the user's files in one phase of a call."""

    file: str
    line: int
    phase: str
    """`forward` or `backward`."""


@dataclass(frozen=True, slots=True)
class LineTime:
    """Time of a line in one call, in microseconds."""

    file: str
    line: int
    phase: str
    eager_us: float | None
    """None if the eager call was not split into lines."""
    compiled_us: float | None
    share: float
    """Share of the compiled call; of the eager one if the compiled one was not split."""
    shared: bool
    """Whether `compiled_us` is partly an estimate: kernels of several lines are split by bytes or FLOPs."""
    estimated: bool
    """As in `LinesTimed.estimated`, for the side of `share`."""

    @property
    def us(self) -> float:
        """Time that `share` is based on."""
        return (self.eager_us if self.compiled_us is None else self.compiled_us) or 0.0


@dataclass(frozen=True, slots=True)
class RestTime:
    """Time of one call that is on no line."""

    name: str
    eager_us: float | None
    compiled_us: float | None


@dataclass(frozen=True, slots=True)
class LineTimes:
    """One call, in microseconds: the lines, longest first, and the rest."""

    eager_us: float | None
    compiled_us: float | None
    lines: tuple[LineTime, ...]
    rest: tuple[RestTime, ...]

    @property
    def side(self) -> str:
        """Side that the shares are based on."""
        return "eager" if self.compiled_us is None else "compiled"


class LineShare(NamedTuple):
    """A line of a call, forward and backward together."""

    us: float
    share: float
    estimated: bool
    """Whether it is partly an estimate: a share of a kernel of several lines, or `LinesTimed.estimated`."""


def line_shares(times: LineTimes | None) -> dict[Line, LineShare]:
    """Return the time of each line that takes any, on the side of `times`."""
    shares: dict[Line, LineShare] = {}
    for time in times.lines if times is not None else ():
        if time.us:
            us, share, estimated = shares.get((time.file, time.line), LineShare(0.0, 0.0, estimated=False))
            estimated = estimated or time.shared or time.estimated
            shares[time.file, time.line] = LineShare(us + time.us, share + time.share, estimated)
    return shares


class KernelGraphs(NamedTuple):
    """Graphs of a run, which show the origin of its kernels."""

    kernels: tuple[ev.Kernel, ...]
    aten_graphs: tuple[ev.AtenGraph, ...]
    graphs: tuple[ev.GraphCaptured, ...]
    """Dynamo's graphs: eager ops of their lines are not outside the graphs."""


def line_times(
    timed: ev.LinesTimed | None,
    kernels: tuple[ev.Kernel, ...],
    aten_graphs: tuple[ev.AtenGraph, ...],
    graphs: tuple[ev.GraphCaptured, ...],
) -> LineTimes | None:
    """Return the time of each line; None if it was not measured. `kernels` are those of this machine."""
    if timed is None or (timed.eager_us is None and timed.compiled_us is None):
        return None
    eager = {_key(line.location, line.phase): line.us for line in timed.eager}
    compiled = _Compiled(timed, KernelGraphs(kernels, aten_graphs, graphs), eager)
    whole = timed.eager_us if timed.compiled_us is None else timed.compiled_us
    estimated = ("eager" if timed.compiled_us is None else "compiled") in timed.estimated
    lines = []
    for line in dict.fromkeys((*eager, *compiled.lines)):
        eager_us = None if timed.eager_us is None else eager.get(line, 0.0)
        compiled_us = None if timed.compiled_us is None else compiled.lines.get(line, 0.0)
        shown = eager_us if compiled_us is None else compiled_us
        share = shown / whole if shown and whole else 0.0
        lines.append(LineTime(*line, eager_us, compiled_us, share, line in compiled.shared, estimated))
    lines.sort(key=lambda time: (-time.us, -(time.eager_us or 0.0), time.file, time.line))
    return LineTimes(timed.eager_us, timed.compiled_us, tuple(lines), tuple(_rest(timed, compiled)))


def _rest(timed: ev.LinesTimed, compiled: _Compiled) -> Iterator[RestTime]:
    eager: dict[str, float] = {name: us for name, us in timed.eager_rest}  # noqa: C416  the type is wider
    for name in dict.fromkeys((*eager, *compiled.rest)):
        eager_us = None if timed.eager_us is None else eager.get(name, 0.0)
        compiled_us = None if timed.compiled_us is None else compiled.rest.get(name, 0.0)
        if eager_us or compiled_us:
            yield RestTime(name, eager_us, compiled_us)


def _key(location: ev.Location, phase: str) -> PhaseLine:
    return PhaseLine(location.file, location.line, phase)


class _Compiled:
    """Lines and rest of the compiled call."""

    def __init__(self, timed: ev.LinesTimed, run: KernelGraphs, eager: Mapping[PhaseLine, float]) -> None:
        self.lines: dict[PhaseLine, float] = defaultdict(float)
        self.rest: dict[str, float] = {str(name): us for name, us in timed.compiled_rest}
        self.shared: set[PhaseLine] = set()
        by_name: dict[NodeKey, ev.Kernel] = {(known.graph, known.phase, known.name): known for known in run.kernels}
        nodes = _nodes(run.aten_graphs)
        for time in timed.kernels:
            kernel = by_name.get((time.graph, time.phase, time.kernel))
            weights = _kernel_weights(kernel, nodes) if kernel else {}
            self._add(weights, time.us, "unattributed")
        self._add_outside(timed, run.graphs, eager)

    def _add(self, weights: Mapping[PhaseLine | None, float], us: float, rest: str) -> None:
        """Split a time over lines; the part of None, or the time without lines, goes to the rest."""
        total = sum(weights.values())
        if not total:
            self.rest[rest] = self.rest.get(rest, 0.0) + us
            return
        for line, weight in weights.items():
            if line is None:
                self.rest["unattributed"] = self.rest.get("unattributed", 0.0) + us * weight / total
            else:
                self.lines[line] += us * weight / total
        if len(weights) > 1:
            self.shared.update(line for line in weights if line is not None)

    def _add_outside(
        self, timed: ev.LinesTimed, graphs: Sequence[ev.GraphCaptured], eager: Mapping[PhaseLine, float]
    ) -> None:
        """Split the ops outside the graphs over the lines that are in no graph, as their ops take in the eager call."""
        us = self.rest.pop("outside the graphs", 0.0)
        if not us:
            return
        captured = {(at.file, at.line) for graph in graphs for node in graph.all_nodes if (at := node.location)}
        weights: dict[PhaseLine | None, float] = {
            line: spent for line, spent in eager.items() if spent and (line.file, line.line) not in captured
        }
        if weights and (unknown := dict(timed.eager_rest).get("unattributed")):
            weights[None] = unknown
        self._add(weights, us, "outside the graphs")


NodeKey = tuple[str, str, str]
"""Graph, phase and name of a post-grad node."""


def _nodes(graphs: Iterable[ev.AtenGraph]) -> dict[NodeKey, ev.FxNode]:
    return {
        (graph.graph, graph.phase, node.name): node
        for graph in graphs
        if graph.stage == "post_grad"
        for node in graph.all_nodes
    }


def _kernel_weights(kernel: ev.Kernel, nodes: Mapping[NodeKey, ev.FxNode]) -> dict[PhaseLine | None, float]:
    """Return the weight of each line in a kernel: the bytes that its nodes would move alone, or their FLOPs.

    Nodes without a location do not count if others have one. Without sizes, lines have equal weights.
    """
    of_kernel = [nodes[key] for name in kernel.nodes if (key := (kernel.graph, kernel.phase, name)) in nodes]
    located = [(node, node.location) for node in of_kernel if node.location is not None]
    weights: dict[PhaseLine | None, float] = defaultdict(float)
    for node, location in located:
        weights[_key(location, kernel.phase)] += _weight(kernel, node, nodes)
    if not any(weights.values()):
        places = [location for _, location in located] or kernel.source_lines
        return {_key(location, kernel.phase): 1.0 for location in places}
    return {line: weight for line, weight in weights.items() if weight}


def _weight(kernel: ev.Kernel, node: ev.FxNode, nodes: Mapping[NodeKey, ev.FxNode]) -> float:
    if kernel.fusion == "template epilogue" and kernel.flops:
        return kernel.flops if node.target.startswith(_PRODUCTS) else _elements(node)
    inputs = (nodes.get((kernel.graph, kernel.phase, name)) for name in node.inputs)
    return _size(node) + sum(_size(read) for read in inputs if read is not None)


def _elements(node: ev.FxNode) -> int:
    sizes = (int(size) if size.isdecimal() else _SYMBOLIC_SIZE for size in node.shape or ())
    return prod(sizes) if node.shape is not None else 0


def _size(node: ev.FxNode) -> int:
    return _elements(node) * (node.itemsize or 1)


Line = tuple[str, int]
"""File and line number."""


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """Memory traffic of the kernel calls that a line is part of.

    A fused kernel counts in full for each of its lines, since torch does not attribute bytes to lines. So the shares
    of all lines may add up to more than 1.
    """

    calls: int
    bytes: int
    """Read and written by these calls, from the sizes of the scheduler's buffers."""
    share: float
    """Share of all bytes that the kernels of the run move."""
    extern: bool
    """All calls are of extern kernels."""
    unknown: int = 0
    """Calls of unknown size."""


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    bytes: int = 0
    extern: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Memory traffic of a run."""

    bytes: int
    """Moved by all kernel calls."""
    lines: dict[Line, LineTraffic] = field(default_factory=dict)


def line_traffic(kernels: Iterable[ev.Kernel]) -> Traffic:
    """Return the traffic of each line, forward and backward together."""
    total, sums = 0, dict[Line, _Sum]()
    for kernel in kernels:
        for call in kernel.calls or (kernel,):
            moved = bytes_moved(call)
            total += moved or 0
            for line in {(place.file, place.line) for place in call.source_lines}:
                own = sums.setdefault(line, _Sum())
                own.calls += 1
                own.bytes += moved or 0
                own.extern += not kernel.generated
                own.unknown += moved is None
    return Traffic(total, {line: _line(own, total) for line, own in sums.items()})


def _line(own: _Sum, total: int) -> LineTraffic:
    share = own.bytes / total if total else 0.0
    return LineTraffic(own.calls, own.bytes, share, own.extern == own.calls, own.unknown)


def bytes_moved(call: ev.Kernel | ev.KernelCall) -> int | None:
    """Return the bytes that a kernel, or one call of it, reads and writes; None if unknown."""
    if call.bytes_read is None or call.bytes_written is None:
        return None
    return call.bytes_read + call.bytes_written
