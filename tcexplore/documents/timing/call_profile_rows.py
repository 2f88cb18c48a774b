"""Rows of the timing pane about the profile of one call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row
from tcexplore.events import CallPart, CallProfiled
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot

PART_NAMES = {
    "python": "Python outside the compiled regions",
    "guards": "guards",
    "dispatch": "dispatch and bytecode",
    "prologue": "AOT prologue",
    "epilogue": "AOT epilogue",
    "wrapper": "wrapper between the kernels",
    "waiting": "waiting for the device",
    "kernel": "kernel",
    "extern": "extern",
    "outside": "outside the graphs",
}

MOST = 16
"""Parts that are listed one by one."""

Line = tuple[str, str, str]
"""Time, share of the call and name of a part."""


CALL_PROFILE = "one call"


def call_profile_rows(snapshot: Snapshot, opened: frozenset[str]) -> Iterator[Row]:
    """Yield a fold with the parts of a call, once it is profiled."""
    profile = snapshot.call_profile
    if profile is None:
        return
    yield BLANK
    yield fold(CALL_PROFILE, CALL_PROFILE in opened, summarize_profile(profile))
    if CALL_PROFILE in opened:
        for time, share, name in profile_lines(profile):
            yield row((f" {time:>8} {share:>5}  ", "muted"), name)


def summarize_profile(profile: CallProfiled) -> str:
    """Return `one profiled call: 412 µs, 61% of it in kernels`, or how long the device is busy."""
    total = f"one profiled call: {duration(profile.total_us / 1e6)}"
    if profile.device_busy_us is not None:
        return f"{total}, device busy for {_share(profile.device_busy_us, profile.total_us)} of it"
    kernels = sum(part.us for part in profile.parts if part.kind in ("kernel", "extern"))
    return total + (f", {_share(kernels, profile.total_us)} of it in kernels" if kernels and profile.total_us else "")


def profile_lines(profile: CallProfiled) -> Iterator[Line]:
    """Yield the parts of the host's time, longest first, then those of the device."""
    yield from _longest([part for part in profile.parts if part.kind != "device"], profile)
    device = [part for part in profile.parts if part.kind == "device"]
    if profile.device_busy_us is not None:
        yield from _of_device(profile)
        yield from _longest([part for part in device if part.graph], profile)
        outside = [part for part in device if not part.graph]
        if outside:
            spent = sum(part.us for part in outside)
            yield duration(spent / 1e6), _share(spent, profile.total_us), "device work outside the graphs"
            yield from _longest(outside, profile)


def _of_device(profile: CallProfiled) -> Iterator[Line]:
    busy, gaps = profile.device_busy_us or 0.0, profile.launch_gaps_us or 0.0
    replays = f", {profile.replayed_tasks} of them in {count(profile.replays, 'CUDA graph')}" if profile.replays else ""
    works = f"device busy: {profile.device_tasks} kernels, copies and fills in {profile.launches} launches{replays}"
    yield duration(busy / 1e6), _share(busy, profile.total_us), works
    yield duration(gaps / 1e6), _share(gaps, profile.total_us), "device idle between launches"


def _longest(parts: Sequence[CallPart], profile: CallProfiled) -> Iterator[Line]:
    yield from (_line(part, profile.total_us) for part in parts[:MOST])
    if len(parts) > MOST:
        rest = sum(part.us for part in parts[MOST:])
        yield duration(rest / 1e6), _share(rest, profile.total_us), f"{count(len(parts) - MOST, 'shorter part')}"


def _line(part: CallPart, whole: float) -> Line:
    times = f" ×{part.count}" if part.count > 1 else ""
    on_device = part.kind == "device"
    name = (
        f"  {shorten_device_function(part.name)}"
        if on_device
        else f"{PART_NAMES.get(part.kind, part.kind)} {part.name}".strip()
    )
    graph = f"  {part.graph.strip()}" if part.graph.strip() else ""
    return duration(part.us / 1e6), _share(part.us, whole), f"{name}{times}{graph}"


def shorten_device_function(name: str) -> str:
    """Return the name of a device function without types and arguments: `at::native::reduce_kernel`."""
    short = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", short)) != short:
        short = shorter
    # The parentheses of `Memcpy DtoH (Device -> Pinned)` are part of its name.
    return short if " (" in short else short.partition("(")[0]


def _share(microseconds: float, whole: float) -> str:
    return f"{100 * microseconds / whole:.0f}%" if whole else ""
