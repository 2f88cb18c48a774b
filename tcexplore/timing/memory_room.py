"""Whether there is memory for eager steps, which may need more than compiled ones."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tcexplore.quantities import size

MEMINFO = Path("/proc/meminfo")
STATUS = Path("/proc/self/statm")

LARGEST_SHARE = 0.5
"""Share of the memory that compiled steps may use: eager ones rarely need twice as much."""

LEAST_FREE = 0.05
"""Share of the memory that must stay free between eager steps."""


class MemoryRoom:
    """The memory of a device, or of the machine for a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reason_not_to_begin(self) -> str:
        """Return why no eager step may be tried; empty if there is memory for it."""
        if self._device.type == "cuda":
            used, (_, total) = torch.cuda.max_memory_allocated(self._device), torch.cuda.mem_get_info(self._device)
        else:
            used, total = _resident(), _available() + _resident()
        if not total or used <= LARGEST_SHARE * total:
            return ""
        return (
            f"compiled steps use {size(used)} of the {size(total)} of memory that there is, and eager ones may need "
            "more than is left"
        )

    def reason_to_stop(self) -> str:
        """Return why no further eager step may run; empty if memory is left."""
        if self._device.type == "cuda":
            free, total = torch.cuda.mem_get_info(self._device)
            free += torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        else:
            free = _available()
            total = free + _resident()
        return "" if not total or free >= LEAST_FREE * total else f"memory ran low: {size(free)} of {size(total)} left"


def _available() -> int:
    """Return the bytes that the system can give to programs; 0 if unknown."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0


def _resident() -> int:
    """Return the bytes of this process in memory; 0 if unknown."""
    try:
        return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
