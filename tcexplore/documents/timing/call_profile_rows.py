"""Rows of the timing pane about the parts of one compiled call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import CallPart
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.call_account import CallAccount

PART_NAMES = {
    "Python": "Python outside the compiled regions",
    "guards": "guards",
    "launch": "launch:",
    "idle": "device idle: Python and launch",
    "kernel": "kernel",
    "library": "library call",
    "eager op": "outside the graphs:",
}

MOST = 16
"""Parts that are listed one by one."""

ESTIMATED = (
    "Estimates: the machine ran over 10% faster or slower than in the timing while the parts were measured. They are "
    "scaled to the timing."
)

CALL_PROFILE = "one call"


class Line(NamedTuple):
    """One part as text."""

    time: str
    share: str
    name: str
    range: str = ""
    """The least and the greatest time among the profiled calls."""


def call_profile_rows(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """Yield a fold with the parts of a call, once it is profiled."""
    account = snapshot.call_account
    if account is None:
        return
    yield BLANK
    yield fold(CALL_PROFILE, CALL_PROFILE in opened, summarize_account(account))
    if CALL_PROFILE in opened:
        for line in account_lines(account):
            yield row((f" {line.time:>8} {line.share:>5}  ", "muted"), line.name, (f"  {line.range}", "dim"))
        if account.estimated:
            yield from wrapped(ESTIMATED, width, "muted")


def summarize_account(account: CallAccount) -> str:
    """Return `one compiled call: 412 µs, 61% of it in kernels`, or how long the device is busy."""
    total = f"one compiled call: {duration(account.total_us / 1e6)}"
    if account.on_device:
        idle = account.us("idle", "guards")
        return f"{total}, device busy for {_share(account.total_us - idle, account.total_us)} of it"
    kernels = account.us("kernel", "library")
    return total + (f", {_share(kernels, account.total_us)} of it in kernels" if kernels and account.total_us else "")


def account_lines(account: CallAccount) -> Iterator[Line]:
    """Yield the parts of a call, longest first, and what they leave."""
    yield from (_line(part, account.total_us) for part in account.parts[:MOST])
    if len(account.parts) > MOST:
        rest = sum(part.us for part in account.parts[MOST:])
        shorter = count(len(account.parts) - MOST, "shorter part")
        yield Line(duration(rest / 1e6), _share(rest, account.total_us), shorter)
    if account.rest_us:
        name = "overlapping work of the device" if account.rest_us < 0 else "in no part"
        time = duration(abs(account.rest_us) / 1e6)
        yield Line(f"-{time}" if account.rest_us < 0 else time, _share(account.rest_us, account.total_us), name)
    profile = account.profile
    if account.on_device:
        replays = f", {profile.replayed_tasks} of them in {count(profile.replays, 'CUDA graph')}"
        launches = f"{profile.device_tasks} kernels, copies and fills in {profile.launches} launches"
        yield Line("", "", launches + (replays if profile.replays else ""))


def _line(part: CallPart, whole: float) -> Line:
    times = f" ×{part.launches}" if part.launches > 1 else ""
    name = f"{PART_NAMES[part.kind]} {shorten_device_function(part.name)}".strip()
    graph = f"  {part.graph} {part.phase}" if part.graph else ""
    low, high = duration(part.low_us / 1e6), duration(part.high_us / 1e6)
    ends = f"{low} to {high}" if low != high else ""
    return Line(duration(part.us / 1e6), _share(part.us, whole), f"{name}{times}{graph}", ends)


def shorten_device_function(name: str) -> str:
    """Return the name of a device function without types and arguments: `at::native::reduce_kernel`."""
    short = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", short)) != short:
        short = shorter
    # The parentheses of `Memcpy DtoH (Device -> Pinned)` are part of its name.
    return short if " (" in short else short.partition("(")[0]


def _share(microseconds: float, whole: float) -> str:
    return f"{100 * microseconds / whole:.0f}%" if whole else ""
