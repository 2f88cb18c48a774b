"""The machine on which a workload is timed: clock, device, threads, other processes. Tests simulate one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import FactMissing
from tcexplore.timing.blocks import CPU_BLOCK_NS, GPU_BLOCK_NS, BlockTimer, Clock, SystemClock
from tcexplore.timing.cpu_load import OtherProcesses, core_count, frequency_governor
from tcexplore.timing.device_sync import device_name, make_device_timer, make_synchronizer
from tcexplore.timing.workload import Workload

COUNTERS = "torch._dynamo.utils:counters"
FAMILIES = ("frames", "stats", "aot_autograd")
"""Counters that change when something compiles but not when a call hits the caches."""

MIN_CORES = 4
"""Minimum number of cores to reserve one for the terminal app."""

THREADS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMachine:
    """The clock, devices and counters that timing uses."""

    clock: Clock
    timer: BlockTimer
    compile_count: Callable[[], int]
    """Returns a number that grows when something is compiled."""
    device: str
    threads: int
    cores: int
    busy_cores: Callable[[], float | None]
    """Returns how many of `cores` other processes use; None if unknown."""
    governor: str = ""
    device_time: Callable[[Callable[[], object], float], float] | None = None
    """Returns the nanoseconds that the device works for one unit; None without device events."""
    reserved_core: int | None = None
    """The core that this process leaves to the terminal app."""
    seed: int = 0
    """The seed of the order of pairs."""


def this_machine(workload: Workload, emit: Emit) -> TimedMachine:
    """Return the machine of this process, configured for `workload`."""
    clock = SystemClock()
    return TimedMachine(
        clock=clock,
        timer=BlockTimer(
            clock=clock,
            synchronize=make_synchronizer(workload.device),
            reset=workload.reset,
            min_block_ns=CPU_BLOCK_NS if workload.device.type == "cpu" else GPU_BLOCK_NS,
            synchronous=workload.device.type == "cpu",
            context=workload.context,
        ),
        compile_count=compile_counter(emit),
        device=device_name(workload.device),
        threads=torch.get_num_threads(),
        reserved_core=reserve_core(torch.get_num_threads()),
        cores=core_count(),
        busy_cores=OtherProcesses().busy_cores,
        governor=frequency_governor(),
        device_time=make_device_timer(workload.device, workload.reset),
    )


def compile_counter(emit: Emit) -> Callable[[], int]:
    """Return a function that counts compilations of Dynamo and AOTAutograd by torch's own counters.

    If this torch has no counters, emit a `FactMissing` and return a function that returns 0.
    """
    try:
        from torch._dynamo.utils import counters
    except ImportError as error:
        emit(FactMissing(fact="recompiles while timing", symbol=COUNTERS, reason=f"this torch has none: {error}"))
        return lambda: 0
    families: Mapping[str, Mapping[str, int]] = counters
    return lambda: sum(sum(families[name].values()) for name in FAMILIES if name in families)


def reserve_core(threads: int) -> int | None:
    """Keep all threads of this process off one core and return that core.

    Return None and do nothing with fewer than `MIN_CORES` cores, if torch's `threads` need all of them, or if the
    system does not support CPU affinity.
    """
    try:
        cores = os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return None
    if len(cores) < MIN_CORES or threads >= len(cores):
        return None
    reserved = max(cores)
    for thread in _thread_ids():
        with suppress(OSError):  # the thread may have ended
            os.sched_setaffinity(thread, cores - {reserved})
    return reserved


def _thread_ids() -> list[int]:
    """Return the ids of all threads, each of which has its own affinity."""
    try:
        return [int(thread.name) for thread in THREADS.iterdir()]
    except OSError:
        return [0]
