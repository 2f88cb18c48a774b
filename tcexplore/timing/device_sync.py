"""Synchronization with the device, and its own working time without launches and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

CYCLES_PER_NS = 2
HEAD_START = 1.5
"""The device spins for this many times the duration of the timed units while the host queues them."""

COLD_START_NS = 500_000
"""Extra duration of the first launches after a wait."""

LONGEST_HEAD_START_NS = 500_000_000

BATCH_NS = 1_000_000
MAX_BATCH = 8
"""Short units are timed in batches up to this duration and count: recording events costs some microseconds."""


def make_synchronizer(device: torch.device) -> Callable[[], None]:
    """Return a function that waits for all work queued on `device`; on a CPU it does nothing."""
    if device.type in ("cpu", "meta"):
        return lambda: None
    module: Any = torch.get_device_module(device)
    synchronize: Callable[[], None] = module.synchronize
    return synchronize


def device_name(device: torch.device) -> str:
    """Return the device's type, with the model of a CUDA device: `cpu`, `cuda: NVIDIA H200`."""
    kind = str(device.type)
    if kind != "cuda":
        return kind
    return f"cuda: {torch.cuda.get_device_name(device)}"


def make_device_timer(device: torch.device, reset: Callable[[], None] | None) -> Callable[..., float] | None:
    """Return `time(run, wall_ns)`, which measures the nanoseconds that the device works for one `run`; None for a CPU.

    The device spins while the host queues a unit, or several short ones, so that gaps between launches do not count;
    `wall_ns`, the wall time of one unit, determines how long. Gaps remain if the host waits for the device (`.item()`)
    or if the driver's queue overflows.
    """
    if device.type != "cuda":
        return None
    spin: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)

    def time(run: Callable[[], object], wall_ns: float) -> float:
        with torch.cuda.device(device):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            units = 1 if reset else min(max(1, int(BATCH_NS / wall_ns)), MAX_BATCH)
            if reset:
                reset()
            torch.cuda.synchronize()
            if spin:
                spin_ns = min(units * wall_ns * HEAD_START + COLD_START_NS, LONGEST_HEAD_START_NS)
                spin(int(spin_ns * CYCLES_PER_NS))
            start.record()
            for _ in range(units):
                run()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end)) * 1e6 / units

    return time
