"""How much of a run's memory traffic the kernels of each line of the user's move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tcexplore import events as ev

Line = tuple[str, int]
"""File and line number."""


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """The kernel calls that a line takes part in.

    `bytes` is what those calls read and write together, by the sizes of the scheduler's buffers. A fused kernel counts
    in full for each of its lines: torch does not say which line a byte is for, so shares of lines add up to more
    than 1. `share` is `bytes` of all that the run's kernels move, 0 to 1. `extern` is set when all of the calls are
    of extern kernels; `unknown` counts calls whose size torch did not say.
    """

    calls: int
    bytes: int
    share: float
    extern: bool
    unknown: int = 0


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    bytes: int = 0
    extern: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """`bytes` is what all kernel calls of a run move; `lines` has the lines that take part in any of them."""

    bytes: int
    lines: dict[Line, LineTraffic] = field(default_factory=dict)


def line_traffic(kernels: Iterable[ev.Kernel]) -> Traffic:
    """The heat of each line, forward and backward together."""
    total, sums = 0, dict[Line, _Sum]()
    for kernel in kernels:
        for call in kernel.calls or (kernel,):
            moved = bytes_moved(call)
            total += moved or 0
            for line in {(place.file, place.line) for place in call.source_lines}:
                found = sums.setdefault(line, _Sum())
                found.calls += 1
                found.bytes += moved or 0
                found.extern += kernel.language == "extern"
                found.unknown += moved is None
    return Traffic(total, {line: _line(found, total) for line, found in sums.items()})


def _line(found: _Sum, total: int) -> LineTraffic:
    share = found.bytes / total if total else 0.0
    return LineTraffic(found.calls, found.bytes, share, found.extern == found.calls, found.unknown)


def bytes_moved(call: ev.Kernel | ev.KernelCall) -> int | None:
    """Bytes that a kernel or one call of it reads and writes; None where torch did not say."""
    if call.bytes_read is None or call.bytes_written is None:
        return None
    return call.bytes_read + call.bytes_written
