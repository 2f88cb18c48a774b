"""Facts about one kernel beyond its source: machine code, resources, roofline, measured rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from tcexplore import events as ev
from tcexplore.session.code import Code
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


class Achieved(NamedTuple):
    """Measured rates of a kernel over all launches in one call; None if torch counts no bytes or FLOPs."""

    measured: ev.CallPart
    memory: float | None
    """Bytes per second."""
    compute: float | None
    """FLOP per second."""
    memory_share: float | None
    """Share of the device's peak; None if the peak is unknown."""
    compute_share: float | None
    bound_share: float | None
    """Minimum time of the roofline over the measured time."""


def measured_time(snapshot: Snapshot, kernel: ev.Kernel) -> ev.CallPart | None:
    """Return the part of a call that a kernel takes on the device of this machine."""
    if snapshot.call_account is None or kernel.target != NATIVE:
        return None
    wanted = ("kernel", kernel.graph, kernel.phase, kernel.name)
    parts = (p for p in snapshot.call_account.parts if (p.kind, p.graph, p.phase, p.name) == wanted)
    return next(parts, None)


def achieved(snapshot: Snapshot, kernel: ev.Kernel, point: ev.RooflinePoint | None) -> Achieved | None:
    """Return the rates of a kernel; None if it was not measured. `point` has the peaks of the device."""
    time = measured_time(snapshot, kernel)
    if time is None or time.us <= 0:
        return None
    runs = _runs(snapshot, kernel, time)
    moved = None if kernel.bytes_read is None else kernel.bytes_read + (kernel.bytes_written or 0)
    memory = _rate(moved, time.us / runs)
    compute = _rate(kernel.flops, time.us / runs)
    on_device = point is not None and time.device != "cpu"
    return Achieved(
        measured=time,
        memory=memory,
        compute=compute,
        memory_share=memory / point.memory_peak if point and on_device and memory else None,
        compute_share=compute / point.peak if point and on_device and compute else None,
        bound_share=point.implied_us * runs / time.us if point and on_device else None,
    )


def _runs(snapshot: Snapshot, kernel: ev.Kernel, part: ev.CallPart) -> float:
    """Return how often one call runs the kernel's graph; the kernel's bytes and FLOPs are of one run."""
    calls = snapshot.call_account.calls if snapshot.call_account is not None else 1
    return part.launches / len(kernel.calls) / calls if kernel.calls else 1 / calls


def _rate(amount: int | None, microseconds: float) -> float | None:
    return amount / microseconds * 1e6 if amount else None
