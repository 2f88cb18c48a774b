"""What is known of one kernel beyond its source: machine code, resources, its place under the roof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from tcexplore import events as ev
from tcexplore.session.code import Code
from tcexplore.session.snapshot import Snapshot


class OfKernel(Protocol):
    """An event about one kernel."""

    @property
    def graph(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def kernel(self) -> str: ...


Found = TypeVar("Found", bound=OfKernel)


class KernelFacts(NamedTuple):
    """`made` has the configuration that runs, or the first; each is None where nothing was said."""

    assembled: ev.KernelAssembled | None
    not_assembled: ev.KernelNotAssembled | None
    roofline: ev.RooflinePoint | None


def kernel_facts(code: Code, kernel: ev.Kernel) -> KernelFacts:
    """What the code in view says of one of its kernels."""
    return KernelFacts(
        _first(code.assembled, kernel), _first(code.not_assembled, kernel), _first(code.roofline, kernel)
    )


def kernel_loops(code: Code, kernel: ev.Kernel) -> tuple[ev.LoopVectorized, ...]:
    """How the loop nests of a C++ kernel were written; of one that was written again, the last time."""
    if kernel.language != "cpp":
        return ()
    own = set(kernel.scheduler_nodes)
    found = {
        loop.nodes: loop
        for loop in code.vectorized
        if (loop.graph, loop.phase) == (kernel.graph, kernel.phase) and own.issuperset(loop.nodes)
    }
    return tuple(found.values())


def _first(events: Iterable[Found], kernel: ev.Kernel) -> Found | None:
    wanted = (kernel.graph, kernel.phase, kernel.name)
    return next((event for event in events if (event.graph, event.phase, event.kernel) == wanted), None)


class Achieved(NamedTuple):
    """Measured, of all launches of a kernel in one call.

    `memory` in bytes/s and `compute` in FLOP/s, each with its share of the device's peak; None where torch counts no
    bytes or FLOPs of the kernel, or the peaks are not known. `of_bound` is the share of the rate that bounds it: the
    least time that its bound allows, over the time it took.
    """

    measured: ev.KernelTimed
    memory: float | None
    compute: float | None
    memory_share: float | None
    compute_share: float | None
    bound_share: float | None


def measured_time(snapshot: Snapshot, kernel: ev.Kernel) -> ev.KernelTimed | None:
    """The measured time of a kernel of the device in the machine."""
    wanted = (kernel.graph, kernel.phase, kernel.name, kernel.target)
    found = (one for one in snapshot.kernel_times if (one.graph, one.phase, one.kernel, one.target) == wanted)
    return next(found, None)


def achieved(snapshot: Snapshot, kernel: ev.Kernel, point: ev.RooflinePoint | None) -> Achieved | None:
    """None where the kernel was not measured. `point` is its place under the roof, with the device's peaks."""
    found = measured_time(snapshot, kernel)
    if found is None or found.us <= 0:
        return None
    moved = None if kernel.bytes_read is None else kernel.bytes_read + (kernel.bytes_written or 0)
    memory = _rate(moved, found.us)
    compute = _rate(kernel.flops, found.us)
    on_device = point is not None and found.device != "cpu"
    return Achieved(
        measured=found,
        memory=memory,
        compute=compute,
        memory_share=memory / point.memory_peak if point and on_device and memory else None,
        compute_share=compute / point.peak if point and on_device and compute else None,
        bound_share=point.implied_us / found.us if point and on_device else None,
    )


def _rate(amount: int | None, microseconds: float) -> float | None:
    return amount / microseconds * 1e6 if amount else None
