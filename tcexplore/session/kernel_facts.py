"""Facts about one kernel beyond its source: machine code, resources, roofline, measured rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from tcexplore import events as ev
from tcexplore.session.code import Code
from tcexplore.session.kernel_arithmetic import Arithmetic, arithmetic_used
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE


class OfKernel(Protocol):
    """An event about one kernel."""

    @property
    def graph(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def kernel(self) -> str: ...


KernelEvent = TypeVar("KernelEvent", bound=OfKernel)


class KernelFacts(NamedTuple):
    """Machine code and roofline of a kernel; None if unknown."""

    assembled: ev.KernelAssembled | None
    """For the configuration that runs, else the first one."""
    not_assembled: ev.KernelNotAssembled | None
    roofline: ev.RooflinePoint | None


def kernel_facts(code: Code, kernel: ev.Kernel) -> KernelFacts:
    """Return the facts about a kernel of this code."""
    return KernelFacts(
        _first(code.assembled, kernel), _first(code.not_assembled, kernel), _first(code.roofline, kernel)
    )


def kernel_loops(code: Code, kernel: ev.Kernel) -> tuple[ev.LoopVectorized, ...]:
    """Return the last form of each loop nest of a C++ kernel."""
    if kernel.language != "cpp":
        return ()
    own = set(kernel.scheduler_nodes)
    loops = {
        loop.nodes: loop
        for loop in code.vectorized
        if (loop.graph, loop.phase) == (kernel.graph, kernel.phase) and own.issuperset(loop.nodes)
    }
    return tuple(loops.values())


def _first(events: Iterable[KernelEvent], kernel: ev.Kernel) -> KernelEvent | None:
    wanted = (kernel.graph, kernel.phase, kernel.name)
    return next((event for event in events if (event.graph, event.phase, event.kernel) == wanted), None)


class PeakShare(NamedTuple):
    """A measured rate as a share of the device's peak."""

    rate: float | None
    """Bytes or FLOP per second; None if torch does not count them."""
    share: float | None = None
    """0 to 1; None if the peak that applies is not known."""
    reason: str = ""
    """Why there is a rate but no share."""


class Achieved(NamedTuple):
    """Measured rates of a kernel over all launches in one call."""

    measured: ev.CallPart
    memory: PeakShare
    compute: PeakShare
    arithmetic: str = ""
    """The arithmetic that `compute` is a share of; empty if unknown."""
    peak: float | None = None
    """FLOP per second of this arithmetic."""
    bound_share: float | None = None
    """The share of the peak that takes longer to reach: of memory, or of arithmetic."""


def measured_time(snapshot: Snapshot, kernel: ev.Kernel) -> ev.CallPart | None:
    """Return the part of a call that a kernel takes on the device of this machine."""
    if snapshot.call_account is None or kernel.target != NATIVE:
        return None
    wanted = ("kernel", kernel.graph, kernel.phase, kernel.name)
    parts = (p for p in snapshot.call_account.parts if (p.kind, p.graph, p.phase, p.name) == wanted)
    return next(parts, None)


def achieved(snapshot: Snapshot, kernel: ev.Kernel, facts: KernelFacts) -> Achieved | None:
    """Return the rates of a kernel; None if it was not measured."""
    time = measured_time(snapshot, kernel)
    if time is None or time.us <= 0:
        return None
    runs = _runs(snapshot, kernel, time)
    moved = None if kernel.bytes_read is None else kernel.bytes_read + (kernel.bytes_written or 0)
    memory, compute = _rate(moved, time.us / runs), _rate(kernel.flops, time.us / runs)
    point = facts.roofline
    if point is None or time.device == "cpu":
        return Achieved(time, PeakShare(memory, None, NO_PEAKS), PeakShare(compute, None, NO_PEAKS))
    used = arithmetic_used(kernel, time.functions, facts.assembled, point.precision) if kernel.flops else Arithmetic()
    peak = dict(point.peaks or ((point.precision, point.peak),)).get(used.name)
    unknown = used.reason or f"the device table has no peak of {used.name}"
    of_memory = _share(memory, point.memory_peak, _in_cache(point))
    of_compute = _share(compute, peak, "" if peak else unknown)
    memory_us = point.bytes / point.memory_peak * 1e6
    compute_bound = kernel.flops and (peak is None or kernel.flops / peak * 1e6 >= memory_us)
    return Achieved(
        measured=time,
        memory=of_memory,
        compute=of_compute,
        arithmetic=used.name if peak else "",
        peak=peak,
        bound_share=of_compute.share if compute_bound else of_memory.share,
    )


NO_PEAKS = "the device table has no peaks of this device"
ABOVE_PEAK = "the rate is above the vendor's peak: what it does is not what is counted"


def _in_cache(point: ev.RooflinePoint) -> str:
    """Return why the bytes of a kernel need not come from the memory; empty if they do."""
    if point.l2_bytes is None or point.bytes > point.l2_bytes:
        return ""
    return f"its bytes fit the L2 cache ({point.l2_bytes / (1 << 20):.0f} MiB)"


def _share(rate: float | None, peak: float | None, unknown: str) -> PeakShare:
    """Return the share of a peak; none if the peak is `unknown`, or if the rate is above it."""
    if not rate:
        return PeakShare(None)
    if unknown or not peak:
        return PeakShare(rate, None, unknown)
    return PeakShare(rate, rate / peak) if rate <= peak else PeakShare(rate, None, ABOVE_PEAK)


def _runs(snapshot: Snapshot, kernel: ev.Kernel, part: ev.CallPart) -> float:
    """Return how often one call runs the kernel's graph; the kernel's bytes and FLOPs are of one run."""
    calls = snapshot.call_account.calls if snapshot.call_account is not None else 1
    return part.launches / len(kernel.calls) / calls if kernel.calls else 1 / calls


def _rate(amount: int | None, microseconds: float) -> float | None:
    return amount / microseconds * 1e6 if amount else None
