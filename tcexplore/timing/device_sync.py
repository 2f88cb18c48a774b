"""Waiting for the device, its name, and the time it works itself, launches and Python left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

DeviceTimer = Callable[[Callable[[], object]], float]

CYCLES_PER_NS = 2
HEAD_START = 1.5
COLD_START_NS = 500_000
"""What the first launches after a wait take longer than those in full swing."""

LONGEST_HEAD_START_NS = 500_000_000

AT_ONCE_NS = 1_000_000
MOST_AT_ONCE = 8
"""So long, and so many units at most, are timed as one: a start and an end cost some microseconds themselves."""


def synchronizer(device: torch.device) -> Callable[[], None]:
    """A function that waits until everything queued on `device` is done; it does nothing on a CPU."""
    if device.type in ("cpu", "meta"):
        return lambda: None
    module: Any = torch.get_device_module(device)
    synchronize: Callable[[], None] = module.synchronize
    return synchronize


def name(device: torch.device) -> str:
    """`cpu`, or the device's type and what it is: `cuda: NVIDIA H200`."""
    kind = str(device.type)
    if kind != "cuda":
        return kind
    return f"cuda: {torch.cuda.get_device_name(device)}"


def device_timer(device: torch.device, reset: Callable[[], None] | None) -> Callable[..., float] | None:
    """`time(run, wall_ns)` gives the nanoseconds that the device itself works for one `run`; None without CUDA events.

    The device is kept spinning while the host queues the whole unit, or a few short ones, so that the gaps between
    launches do not count: `wall_ns`, the time one unit takes, says for how long. Work that makes the host wait
    (`.item()`), or queues more than the driver's queue holds, keeps some of its gaps.
    """
    if device.type != "cuda":
        return None
    spin: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)

    def time(run: Callable[[], object], wall_ns: float) -> float:
        with torch.cuda.device(device):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            units = 1 if reset else min(max(1, int(AT_ONCE_NS / wall_ns)), MOST_AT_ONCE)
            if reset:
                reset()
            torch.cuda.synchronize()
            if spin:
                ahead = min(units * wall_ns * HEAD_START + COLD_START_NS, LONGEST_HEAD_START_NS)
                spin(int(ahead * CYCLES_PER_NS))
            start.record()
            for _ in range(units):
                run()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end)) * 1e6 / units

    return time
