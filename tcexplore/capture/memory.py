"""Memory of a call: the allocator's peak, the memory that stays allocated, and tensors saved for the backward pass."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tcexplore.capture.dynamo.eager_ops import quiet_profiler
from tcexplore.events import Allocation, PeakAllocations


class PeakMeter(NamedTuple):
    """A way to measure the peak memory of a call."""

    method: str
    """A description of the method."""
    peak: Callable[[Callable[[], object]], int]
    """Returns the bytes at the peak of a call above those allocated before it."""


class MemoryReading(NamedTuple):
    """A way to read the memory that is allocated now."""

    method: str
    """A description of the method."""
    read: Callable[[], int | None]
    """Returns bytes, None if they are unknown."""


def peak_meter(device: torch.device) -> PeakMeter:
    """Return the meter of a device: the allocator's peak on a GPU, profiled allocations and frees on a CPU."""
    if device.type == "cuda":
        return PeakMeter("peak of torch's CUDA allocator during one call", lambda call: _cuda_peak(device, call))
    method = "tensors of one call, without weights and inputs, as torch.profiler records"
    return PeakMeter(method, _cpu_peak)


def memory_reading(device: torch.device) -> MemoryReading:
    """Return the reading of a device: memory reserved by torch's allocator on a GPU, the process's memory on a CPU."""
    if device.type == "cuda":
        return MemoryReading("memory reserved by torch's CUDA allocator", lambda: torch.cuda.memory_reserved(device))
    return MemoryReading("resident memory of the worker process", _resident)


def cuda_graph_pools(device: torch.device) -> int:
    """Return the bytes in the private memory pools of CUDA graphs, which no call allocates again."""
    if device.type != "cuda":
        return 0
    segments = torch.cuda.memory_snapshot()
    private = [segment for segment in segments if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)]
    return sum(segment["total_size"] for segment in private)


def saved_for_backward(forward: Callable[[], object], known: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the storages that autograd holds when `forward()` has returned, without those of `known`."""
    known_storages = {tensor.untyped_storage().data_ptr() for tensor in known}
    held = weakref.WeakSet[_Saved]()

    def pack(tensor: torch.Tensor) -> _Saved | torch.Tensor:
        if isinstance(tensor, FakeTensor) or torch._is_functional_tensor(tensor):
            return tensor  # of a compile during the call, as `torch.cond` makes one
        saved = _Saved(tensor.detach())  # an output itself would hold the graph that holds it
        held.add(saved)
        return saved

    def unpack(saved: _Saved | torch.Tensor) -> torch.Tensor:
        return saved.of if isinstance(saved, _Saved) else saved

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = forward()
    storages = [saved.of.untyped_storage() for saved in held]
    del result  # it kept its graph alive until here; that of a condition is gone by then
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return sum(number for address, number in sizes.items() if address not in known_storages)


class _Saved:
    """A tensor that autograd holds."""

    def __init__(self, of: torch.Tensor) -> None:
        self.of = of


def allocations_at_peak(device: torch.device, call: Callable[[], object]) -> PeakAllocations:
    """Return what torch's allocator holds at the peak of a call, each with the op that allocated it."""
    from torch.profiler import ProfilerActivity, profile

    on_device = device.type == "cuda"
    if on_device:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_stats(device)
    # The allocator calls the profiler on the host, also for memory of a device.
    with quiet_profiler(), profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        call()
    changes = [change for change in _changes(profiler) if change.on_device == on_device]
    requested = reserved = None
    if on_device:
        torch.cuda.synchronize(device)
        after = torch.cuda.memory_stats(device)
        requested = after["requested_bytes.all.peak"] - before["requested_bytes.all.current"]
        reserved = after["reserved_bytes.all.peak"]
    total, in_use = in_use_at_peak(changes)
    return PeakAllocations(bytes=total, allocations=in_use, requested=requested, reserved=reserved)


class AllocatorChange(NamedTuple):
    """One allocation or free, as torch.profiler records it."""

    at_ns: int
    bytes: int
    """Negative if it is freed."""
    address: int
    op: str
    """Outermost ATen op around it; empty if there is none."""
    on_device: bool


def in_use_at_peak(changes: Iterable[AllocatorChange]) -> tuple[int, tuple[Allocation, ...]]:
    """Return the bytes at the peak, and the allocations that are in use then, the largest first."""
    ordered = sorted(changes, key=lambda change: change.at_ns)
    total = highest = end = 0
    for index, change in enumerate(ordered):
        total += change.bytes
        if total > highest:
            highest, end = total, index + 1
    held: dict[int, AllocatorChange] = {}
    for change in ordered[:end]:
        if change.bytes > 0:
            held[change.address] = change
        else:
            held.pop(change.address, None)
    largest = sorted(held.values(), key=lambda change: -change.bytes)
    return highest, tuple(Allocation(bytes=change.bytes, op=change.op) for change in largest)


def _changes(profiler: Any) -> Iterator[AllocatorChange]:
    """Yield the allocations and frees of a profile."""
    waiting = [(event, "") for event in profiler.profiler.kineto_results.experimental_event_tree()]
    while waiting:
        event, op = waiting.pop()
        fields = event.extra_fields
        if hasattr(fields, "alloc_size"):
            on_device = fields.device.type == "cuda"
            yield AllocatorChange(event.start_time_ns, fields.alloc_size, fields.ptr, op, on_device)
        inner = op or (event.name if event.name.startswith("aten::") else "")
        waiting += [(child, inner) for child in event.children]


def _cuda_peak(device: torch.device, call: Callable[[], object]) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before: int = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    peak: int = torch.cuda.max_memory_allocated(device)
    return peak - before


def _cpu_peak(call: Callable[[], object]) -> int:
    """Measure the peak on a CPU; scratch memory that a library or a kernel allocates itself is not included."""
    from torch.profiler import ProfilerActivity, profile

    with quiet_profiler(), profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        call()
    return _highest(_allocations(profiler))


def _allocations(profiler: Any) -> list[int]:
    """Return the bytes allocated (positive) and freed (negative) on the CPU, in order of time."""
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    on_cpu = [event for event in records if event.device_type() == torch.autograd.DeviceType.CPU]
    return [event.nbytes() for event in sorted(on_cpu, key=lambda event: event.start_ns())]


def _highest(allocations: list[int]) -> int:
    peak = allocated = 0
    for change in allocations:
        allocated += change
        peak = max(peak, allocated)
    return peak


def _resident() -> int | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
