"""Memory traffic of the kernels, by line of user code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tcexplore import events as ev

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
