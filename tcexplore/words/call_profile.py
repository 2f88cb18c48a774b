"""Where the time of one call goes, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.events import CallPart, CallProfiled
from tcexplore.words.quantities import count, duration

SAID = {
    "python": "Python outside the compiled regions",
    "guards": "guards",
    "dispatch": "dispatch and bytecode",
    "prologue": "AOT prologue",
    "epilogue": "AOT epilogue",
    "wrapper": "wrapper between the kernels",
    "kernel": "kernel",
    "extern": "extern",
    "outside": "outside the graphs",
}

MOST = 16
"""So many parts are told one by one."""


def headline(found: CallProfiled) -> str:
    """`one call under the profiler: 412 µs, 61 % of it in kernels`."""
    kernels = sum(part.us for part in found.parts if part.kind in ("kernel", "extern"))
    share = f", {100 * kernels / found.total_us:.0f} % of it in kernels" if kernels and found.total_us else ""
    return f"one call under the profiler: {duration(found.total_us / 1e6)}{share}"


def lines(found: CallProfiled) -> Iterator[tuple[str, str, str]]:
    """Time, share and name of each part of the host's time, the longest first; then what the device works."""
    host = [part for part in found.parts if part.kind != "device"]
    yield from (_line(part, found.total_us) for part in host[:MOST])
    if len(host) > MOST:
        rest = sum(part.us for part in host[MOST:])
        yield duration(rest / 1e6), _share(rest, found.total_us), f"{count(len(host) - MOST, 'shorter part')}"
    device = [part for part in found.parts if part.kind == "device"]
    if device:
        busy = sum(part.us for part in device)
        yield duration(busy / 1e6), _share(busy, found.total_us), "the device works; the rest is launches and waiting"
        yield from (_line(part, found.total_us) for part in device[:MOST])


def _line(part: CallPart, whole: float) -> tuple[str, str, str]:
    times = f" ×{part.count}" if part.count > 1 else ""
    name = f"{SAID.get(part.kind, part.kind)} {part.name}".strip() if part.kind != "device" else f"  {part.name}"
    return duration(part.us / 1e6), _share(part.us, whole), f"{name}{times}"


def _share(microseconds: float, whole: float) -> str:
    return f"{100 * microseconds / whole:.0f} %" if whole else ""
