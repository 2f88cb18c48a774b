"""The most memory that one call holds at once, by the allocator's own account."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tcexplore.capture.dynamo.eager_ops import quiet_profiler


class Meter(NamedTuple):
    """How memory is measured on a device: in words, and bytes at the peak of a call beyond what was there before."""

    method: str
    peak: Callable[[Callable[[], object]], int]


class Holding(NamedTuple):
    """How what stays is measured: in words, and bytes held now (None: unknown)."""

    method: str
    now: Callable[[], int | None]


def meter(device: torch.device) -> Meter:
    """The meter of a device: the allocator's peak on a GPU, the profiled allocations and frees on a CPU."""
    if device.type == "cuda":
        return Meter("peak of torch's CUDA allocator during one call", lambda call: _cuda_peak(device, call))
    return Meter("tensors allocated and freed during one call, as torch.profiler records them", _cpu_peak)


def holding(device: torch.device) -> Holding:
    """What a device's allocator, or on a CPU this process, holds."""
    if device.type == "cuda":
        return Holding("memory reserved by torch's CUDA allocator", lambda: torch.cuda.memory_reserved(device))
    return Holding("resident memory of the worker process", _resident)


def held_by_graphs(device: torch.device) -> int:
    """Bytes that CUDA graphs keep in memory pools of their own, where no call allocates them anew."""
    if device.type != "cuda":
        return 0
    segments = torch.cuda.memory_snapshot()
    own = [segment for segment in segments if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)]
    return sum(segment["total_size"] for segment in own)


def _cuda_peak(device: torch.device, call: Callable[[], object]) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before: int = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    peak: int = torch.cuda.max_memory_allocated(device)
    return peak - before


def _cpu_peak(call: Callable[[], object]) -> int:
    """Scratch memory that a library or a generated kernel allocates by itself is not seen."""
    from torch.profiler import ProfilerActivity, profile

    with quiet_profiler(), profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        call()
    return _peak(_changes(profiler))


def _changes(profiler: Any) -> list[int]:
    """Bytes allocated (freed: negative) on the CPU, in the order in which it happened."""
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    on_cpu = [event for event in records if event.device_type() == torch.autograd.DeviceType.CPU]
    return [event.nbytes() for event in sorted(on_cpu, key=lambda event: event.start_ns())]


def _peak(changes: list[int]) -> int:
    most = held = 0
    for change in changes:
        held += change
        most = max(most, held)
    return most


def _resident() -> int | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
