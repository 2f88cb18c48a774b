"""Waiting for the device, its name, and the time it works itself, launches and Python left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

DeviceTimer = Callable[[Callable[[], object]], float]

CYCLES_PER_NS = 2
HEAD_START = 1.5
LONGEST_HEAD_START_NS = 500_000_000


def synchroniser(device: torch.device) -> Callable[[], None]:
    """A function that waits until everything queued on `device` is done; it does nothing on a CPU."""
    if device.type in ("cpu", "meta"):
        return lambda: None
    module: Any = torch.get_device_module(device)
    synchronise: Callable[[], None] = module.synchronize
    return synchronise


def name(device: torch.device) -> str:
    """`cpu`, or the device's type and what it is: `cuda: NVIDIA H200`."""
    kind = str(device.type)
    if kind != "cuda":
        return kind
    return f"cuda: {torch.cuda.get_device_name(device)}"


def device_timer(device: torch.device, reset: Callable[[], None] | None) -> Callable[..., float] | None:
    """`time(run, wall_ns)` gives the nanoseconds that the device itself works for one `run`; None without CUDA events.

    The device is kept spinning while the host queues the whole unit, so that the gaps between launches do not count:
    `wall_ns`, the time one unit takes, says for how long. Work that makes the host wait (`.item()`), or queues more
    than the driver's queue holds, keeps some of its gaps.
    """
    if device.type != "cuda":
        return None
    spin: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)

    def time(run: Callable[[], object], wall_ns: float) -> float:
        with torch.cuda.device(device):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if reset:
                reset()
            torch.cuda.synchronize()
            if spin:
                spin(int(min(wall_ns * HEAD_START, LONGEST_HEAD_START_NS) * CYCLES_PER_NS))
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end)) * 1e6

    return time
