"""The machine that a workload is timed on: clock, device, threads, neighbors. Tests simulate one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.timing import cpu_load as load
from tcexplore.timing import device_sync as devices
from tcexplore.timing.blocks import CPU_BLOCK_NS, GPU_BLOCK_NS, BlockTimer
from tcexplore.timing.clock import Clock, SystemClock
from tcexplore.timing.compile_counter import compile_counter
from tcexplore.timing.core_affinity import keep_off_one
from tcexplore.timing.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMachine:
    """What timing needs to know and to call.

    `compiles` grows when something is compiled; `busy_cores` is how many of `cores` other processes keep busy (None:
    unknown); `device_time` gives the device's own nanoseconds for one unit, and is None where there are no events.
    """

    clock: Clock
    timer: BlockTimer
    compiles: Callable[[], int]
    device: str
    threads: int
    cores: int
    busy_cores: Callable[[], float | None]
    governor: str = ""
    device_time: Callable[[Callable[[], object], float], float] | None = None
    core_apart: int | None = None
    """The core that this process keeps off, for the terminal app."""
    seed: int = 0
    """Of the order of the pairs."""


def this_machine(workload: Workload, emit: Emit) -> TimedMachine:
    """The machine that this process runs on, as `workload` uses it."""
    clock = SystemClock()
    return TimedMachine(
        clock=clock,
        timer=BlockTimer(
            clock=clock,
            synchronize=devices.synchronizer(workload.device),
            reset=workload.reset,
            shortest_ns=CPU_BLOCK_NS if workload.device.type == "cpu" else GPU_BLOCK_NS,
            around=workload.around,
        ),
        compiles=compile_counter(emit),
        device=devices.name(workload.device),
        threads=torch.get_num_threads(),
        core_apart=keep_off_one(torch.get_num_threads()),
        cores=load.cores(),
        busy_cores=load.Neighbors().busy_cores,
        governor=load.governor(),
        device_time=devices.device_timer(workload.device, workload.reset),
    )
