"""What a kernel achieved: its measured time against what it moves and computes, and against the device's peaks."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot


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
