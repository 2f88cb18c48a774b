"""How fast a device reads and writes its memory, measured on plain ops."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from tcexplore.events.timing_events import MemoryRates
from tcexplore.timing.timed_machine import make_synchronizer

CPU_ELEMENTS, GPU_ELEMENTS = 2**24, 2**25
"""Floats of each of three tensors: 64 MB and 128 MB, more than most caches hold."""

CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

ROUNDS = 3
CPU_REPEATS, GPU_REPEATS = 1, 20
"""Ops in a round: on a GPU, so many that waiting for their end takes no share of them."""


def measure_memory_rates(device: torch.device) -> MemoryRates | None:
    """Return the rates of the fastest rounds; None if the device cannot run the ops, as without room for the tensors.

    A product with a number reads one tensor and writes one; a sum reads two. The difference is the time of a read.
    """
    elements, repeats = (CPU_ELEMENTS, CPU_REPEATS) if device.type == "cpu" else (GPU_ELEMENTS, GPU_REPEATS)
    synchronize = make_synchronizer(device)

    def seconds(op: Callable[[], object]) -> float:
        rounds = []
        for _ in range(ROUNDS):
            op()
            synchronize()
            began = time.perf_counter()
            for _ in range(repeats):
                op()
            synchronize()
            rounds.append((time.perf_counter() - began) / repeats)
        return min(rounds)

    try:
        a, b, result = (torch.ones(elements, dtype=torch.float32, device=device) for _ in range(3))
        product = seconds(lambda: torch.mul(a, 2.0, out=result))
        total = seconds(lambda: torch.add(a, b, out=result))
    except RuntimeError:  # also torch.OutOfMemoryError
        return None
    # A write takes as long as a read, up to twice as long if it reads first: what differs from that is noise.
    read = min(max(total - product, product / 3), product / 2)
    size = result.numel() * result.element_size()
    return MemoryRates(
        read_bytes_per_s=size / read, written_bytes_per_s=size / (product - read), cache_bytes=_last_cache(device)
    )


def _last_cache(device: torch.device) -> int | None:
    """Return the size of the last cache before the memory; None if it is unknown."""
    if device.type == "cuda":
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        return size
    sizes = []
    for file in CPU_CACHES.glob("index*/size") if device.type == "cpu" else ():
        with suppress(OSError, ValueError):  # `32768K`
            sizes.append(int(file.read_text().strip().removesuffix("K")) * 1024)
    return max(sizes, default=None)
