"""Times of the lines of user code, and the memory traffic of their kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.session.call_account import TOLERANCE, CallAccount

_SYMBOLIC_SIZE = 64
"""Stands for a symbolic size where only the ratio of two tensors matters."""

_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.convolution")
_ATTENTION = "higher_order.flex_attention"
"""Beginning of the name of `flex_attention` and of its backward."""


TimedSpan = Literal["call", "step"]
"""What the times of lines add up to: a call, or a whole step of a script."""


class PhaseLine(NamedTuple):
    """A line of the user's files in one phase of a call."""

    file: str
    line: int
    phase: str
    """`forward` or `backward`."""


@dataclass(frozen=True, slots=True)
class LineTime:
    """Time of a line in one call or step, in microseconds."""

    file: str
    line: int
    phase: str
    eager_us: float | None
    """None if the eager call was not split into lines."""
    compiled_us: float | None
    share: float
    """Share of the compiled call; of the eager call or step if that was not split."""
    shared: bool
    """Whether `compiled_us` is partly an estimate: kernels of several lines are split by bytes or FLOPs."""
    estimated: bool
    """Whether the machine ran over 10% faster or slower than in the timing: the times are scaled to it."""

    @property
    def us(self) -> float:
        """Time that `share` is based on."""
        return (self.eager_us if self.compiled_us is None else self.compiled_us) or 0.0


@dataclass(frozen=True, slots=True)
class RestTime:
    """Time of one call or step that is on no line."""

    name: str
    eager_us: float | None
    compiled_us: float | None


@dataclass(frozen=True, slots=True)
class LineTimes:
    """One call or step, in microseconds: the lines, longest first, and the rest."""

    eager_us: float | None
    compiled_us: float | None
    lines: tuple[LineTime, ...]
    rest: tuple[RestTime, ...]
    of: TimedSpan = "call"

    @property
    def side(self) -> str:
        """Side that the shares are based on."""
        return "eager" if self.compiled_us is None else "compiled"


class LineShare(NamedTuple):
    """A line of a call, forward and backward together."""

    us: float
    share: float
    estimated: bool
    """Whether it is partly an estimate: a share of a kernel of several lines, or of a scaled call."""
    of: TimedSpan = "call"


def line_shares(times: LineTimes | None, outside: LineTimes | None = None) -> dict[Line, LineShare]:
    """Return the time of each line that takes any, on the side of `times`; of lines `outside` their share of a step."""
    shares: dict[Line, LineShare] = {}
    for part in filter(None, (times, outside)):
        for time in part.lines:
            if time.us:
                us, share, estimated, _ = shares.get((time.file, time.line), LineShare(0.0, 0.0, estimated=False))
                estimated = estimated or time.shared or time.estimated
                shares[time.file, time.line] = LineShare(us + time.us, share + time.share, estimated, part.of)
    return shares


class PartLine(NamedTuple):
    """A part of the compiled call on one line; None for what is on none."""

    part: ev.CallPart
    line: PhaseLine | None
    fraction: float
    """Share of the part."""
    shared: bool
    """Whether the part is split over several lines."""


def line_times(
    account: CallAccount | None,
    timed: ev.EagerLinesTimed | None,
    timing: ev.TimingEstimate | None,
    lines_of_parts: tuple[PartLine, ...],
    of: TimedSpan = "call",
) -> LineTimes | None:
    """Return the time of each line; None if it was not measured. The eager call is scaled to that of the timing."""
    if timed is None and all(part.line is None for part in lines_of_parts):
        return None
    scale = timing.eager_us / timed.call_us if timed and timing and timed.call_us else 1.0
    eager = {_key(line.location, line.phase): line.us * scale for line in timed.lines} if timed else {}
    compiled, shared = dict[PhaseLine, float](), set[PhaseLine]()
    for part, place, fraction, split in lines_of_parts:
        if place is not None:
            compiled[place] = compiled.get(place, 0.0) + part.us * fraction
            shared.update([place] if split else [])
    whole = account.total_us if account else timed.call_us * scale if timed else 0.0
    eager_estimated = timed is not None and (timed.estimated or not 1 / TOLERANCE <= scale <= TOLERANCE)
    estimated = account.estimated if account else eager_estimated
    lines = []
    for line in dict.fromkeys((*eager, *compiled)):
        eager_us = eager.get(line, 0.0) if timed else None
        compiled_us = compiled.get(line, 0.0) if account else None
        shown = eager_us if compiled_us is None else compiled_us
        share = shown / whole if shown and whole else 0.0
        lines.append(LineTime(*line, eager_us, compiled_us, share, line in shared, estimated))
    lines.sort(key=lambda time: (-time.us, -(time.eager_us or 0.0), time.file, time.line))
    rest = tuple(_rest(timed, scale, account, lines_of_parts))
    eager_us = timed.call_us * scale if timed else None
    return LineTimes(eager_us, account.total_us if account else None, tuple(lines), rest, of)


def times_outside(
    step_lines: ev.EagerLinesTimed | None, timing: ev.TimingEstimate | None, call: LineTimes | None
) -> LineTimes | None:
    """Return the lines of an eager step that are not in the captured call; None if none is known.

    `timing` is that of the steps.
    """
    step = line_times(None, step_lines, timing, (), "step")
    if step is None or call is None:
        return None
    inside = {(time.file, time.line) for time in call.lines}
    lines = tuple(time for time in step.lines if (time.file, time.line) not in inside)
    return replace(step, lines=lines, rest=()) if any(time.us for time in lines) else None


_REST_NAMES: dict[str, str] = {
    "kernel": "unattributed", "library": "unattributed", "eager op": "outside the graphs", "idle": "Python and launch",
}  # fmt: skip
"""Names of parts that are on no line; others have the name of their kind."""


def _rest(
    timed: ev.EagerLinesTimed | None, scale: float, account: CallAccount | None, parts: tuple[PartLine, ...]
) -> Iterator[RestTime]:
    eager: dict[str, float] = {name: us * scale for name, us in timed.rest} if timed else {}
    compiled: dict[str, float] = defaultdict(float)
    for part, line, fraction, _ in parts:
        if line is None:
            compiled[_REST_NAMES.get(part.kind, part.kind)] += part.us * fraction
    if account is not None and account.rest_us:
        compiled["overlap" if account.rest_us < 0 else "unattributed"] += account.rest_us
    for name in dict.fromkeys((*eager, *compiled)):
        eager_us = eager.get(name, 0.0) if timed else None
        compiled_us = compiled.get(name, 0.0) if account else None
        if eager_us or compiled_us:
            yield RestTime(name, eager_us, compiled_us)


def _key(location: ev.Location, phase: str) -> PhaseLine:
    return PhaseLine(location.file, location.line, phase)


def lines_of_parts(
    account: CallAccount | None,
    timed: ev.EagerLinesTimed | None,
    kernels: tuple[ev.Kernel, ...],
    aten_graphs: tuple[ev.AtenGraph, ...],
    graphs: tuple[ev.GraphCaptured, ...],
) -> tuple[PartLine, ...]:
    """Return the parts of an account with the lines of their kernels and eager ops.

    `kernels` are those of this machine. A kernel of several lines is split by bytes or FLOPs. Eager ops without a line
    are split over those that are in no graph and that no eager op has, as the ops there take in the eager call.
    """
    if account is None:
        return ()
    by_name: dict[NodeKey, ev.Kernel] = {(known.graph, known.phase, known.name): known for known in kernels}
    nodes = post_grad_nodes(aten_graphs)
    outside = _outside_weights(timed, graphs, {part.location for part in account.parts})
    split: list[PartLine] = []
    for part in account.parts:
        weights: Mapping[PhaseLine | None, float] = {}
        if part.kind == "kernel" and (kernel := by_name.get((part.graph, part.phase, part.name))) is not None:
            weights = _kernel_weights(kernel, nodes)
        elif part.location is not None:
            weights = {_key(part.location, part.phase or "forward"): 1.0}
        elif part.kind == "eager op":
            weights = outside
        total = sum(weights.values())
        if not total:
            split.append(PartLine(part, None, 1.0, shared=False))
        else:
            split += [PartLine(part, line, us / total, len(weights) > 1) for line, us in weights.items()]
    return tuple(split)


def _outside_weights(
    timed: ev.EagerLinesTimed | None, graphs: Sequence[ev.GraphCaptured], known: Collection[ev.Location | None]
) -> dict[PhaseLine | None, float]:
    """Return the eager time of the lines that are in no graph and not `known`, as those of other eager ops are."""
    if timed is None:
        return {}
    captured = {(at.file, at.line) for graph in graphs for node in graph.all_nodes if (at := node.location)}
    captured |= {(at.file, at.line) for at in known if at is not None}
    weights: dict[PhaseLine | None, float] = {
        _key(line.location, line.phase): line.us
        for line in timed.lines
        if line.us and (line.location.file, line.location.line) not in captured
    }
    if weights and (unknown := dict(timed.rest).get("unattributed")):
        weights[None] = unknown
    return weights


NodeKey = tuple[str, str, str]
"""Graph, phase and name of a post-grad node."""


def post_grad_nodes(graphs: Iterable[ev.AtenGraph]) -> dict[NodeKey, ev.FxNode]:
    """Return the nodes that kernels compute."""
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
        weights[_key(location, kernel.phase)] += node_weight(kernel, node, nodes)
    if not any(weights.values()):
        places = [location for _, location in located] or kernel.source_lines
        return {_key(location, kernel.phase): 1.0 for location in places}
    return {line: weight for line, weight in weights.items() if weight}


def node_weight(kernel: ev.Kernel, node: ev.FxNode, nodes: Mapping[NodeKey, ev.FxNode]) -> float:
    """Return the bytes that a node of a kernel would move alone, or its FLOPs if the kernel has a template.

    A view moves none: its kernel reads through it.
    """
    if node.is_view:
        return 0.0
    inputs = [read for name in node.inputs if (read := nodes.get((kernel.graph, kernel.phase, name))) is not None]
    if kernel.fusion == "template epilogue":
        if node.target.startswith(_ATTENTION):
            return _attention_flops(inputs)
        if kernel.flops:
            return kernel.flops if node.target.startswith(_PRODUCTS) else _elements(node)
    return _size(node) + sum(map(_size, inputs))


def _attention_flops(inputs: Sequence[ev.FxNode]) -> float:
    """Return the FLOPs of the two products of `flex_attention`, unmasked; its first inputs are queries and keys."""
    match inputs:
        case [queries, ev.FxNode(shape=(*_, length, _)), *_]:
            return 4.0 * _elements(queries) * _number(length)
    return 0.0


def _elements(node: ev.FxNode) -> int:
    return prod(map(_number, node.shape)) if node.shape is not None else 0


def _number(size: str) -> int:
    return int(size) if size.isdecimal() else _SYMBOLIC_SIZE


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
