"""The machine on which a workload is timed: clock, device and its synchronization, threads, CPU use of others.

Tests simulate one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import FactMissing
from tcexplore.events.timing_events import MemoryState
from tcexplore.timing.allocator import keep_memory
from tcexplore.timing.blocks import CPU_BLOCK_NS, FIRST_GPU_BLOCK_NS, GPU_BLOCK_NS, BlockTimer, Clock, SystemClock
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
    restart_load: Callable[[], None] = lambda: None
    """Begins a new reading of `busy_cores`, so that processes which this one started meanwhile do not count."""
    governor: str = ""
    device_span: Callable[[Callable[[], object], float], float] | None = None
    """Returns the nanoseconds from the first to the last work of the device in a unit; None without device events."""
    reserved_core: int | None = None
    """The core that this process leaves to the terminal app."""
    memory: MemoryState = "as the system does"
    """The state of the allocator."""
    seed: int = 0
    """The seed of the order of pairs."""


def this_machine(workload: Workload, emit: Emit, front_end: int | None = None) -> TimedMachine:
    """Return the machine of this process, configured for `workload`; `front_end` is as in `OtherProcesses`."""
    timer, others = block_timer(workload), OtherProcesses(front_end)
    return TimedMachine(
        clock=timer.clock,
        timer=timer,
        compile_count=compile_counter(emit),
        device=device_name(workload.device),
        threads=torch.get_num_threads(),
        reserved_core=reserve_core(torch.get_num_threads()),
        cores=others.cores,
        busy_cores=others.busy_cores,
        restart_load=others.restart,
        governor=frequency_governor(),
        memory=keep_memory() if workload.device.type == "cpu" else "as the system does",
        device_span=make_span_timer(workload.device, workload.reset),
    )


def block_timer(workload: Workload) -> BlockTimer:
    """Return what times blocks of `workload` by the clock of this process."""
    on_cpu = workload.device.type == "cpu"
    return BlockTimer(
        clock=SystemClock(),
        synchronize=make_synchronizer(workload.device),
        reset=workload.reset,
        min_block_ns=CPU_BLOCK_NS if on_cpu else GPU_BLOCK_NS,
        first_block_ns=None if on_cpu else FIRST_GPU_BLOCK_NS,
        synchronous=on_cpu,
        context=workload.context,
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


STAT = Path("/proc/stat")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

WINDOW_S = 60.0
SHORTEST_WINDOW_S = 0.2


class OtherProcesses:
    """The use of this process's cores by other programs, averaged over at most the last minute.

    Descendants of this process are of its own program: torch's compile workers, data loaders. So are those of the front
    end, which prepares the next run and verifies fixes while the timing pauses. On a shared machine, only the cores
    count on which the system lets this process run: jobs elsewhere take none of its time. Create it before a core is
    reserved.
    """

    def __init__(self, front_end: int | None = None, stat: Path = STAT, cores: Collection[int] | None = None) -> None:
        """`front_end` is the process id of the ancestor of all processes of tcexplore, if there is one."""
        self._front_end = front_end
        self._stat = stat
        self._cores = frozenset(allowed_cores() if cores is None else cores)
        self.restart()

    @property
    def cores(self) -> int:
        """The number of cores on which this process may run."""
        return len(self._cores)

    def restart(self) -> None:
        """Begin a new average."""
        self._since, self._busy, self._own = self._readings()

    def busy_cores(self) -> float | None:
        """Return how many cores others use, by `/proc/stat` or else the load average; None if unknown."""
        now, busy, own = self._readings()
        seconds = now - self._since
        if busy is None or self._busy is None:
            return _from_load_average()
        if seconds < SHORTEST_WINDOW_S:
            return None
        others = max(0.0, (busy - self._busy) - (own - self._own)) / seconds
        if seconds > WINDOW_S:
            self._since, self._busy, self._own = now, busy, own
        return others

    def _readings(self) -> tuple[float, float | None, float]:
        own = _own_seconds() if self._front_end is None else _tree_seconds(str(self._front_end))
        return time.monotonic(), _busy_seconds(self._stat, self._cores), own


def frequency_governor(path: Path = GOVERNOR) -> str:
    """Return the first core's frequency governor, or an empty string if unknown."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def allowed_cores() -> set[int]:
    """Return the cores on which the system lets this process run."""
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return set(range(os.cpu_count() or 1))


def _busy_seconds(stat: Path, cores: Collection[int]) -> float | None:
    """Return the CPU seconds of all processes since boot, summed over `cores`; None if the file does not give them."""
    names = {f"cpu{core}" for core in cores}
    try:
        rows = [line.split() for line in stat.read_text().splitlines() if line.partition(" ")[0] in names]
        ticks = sum(sum(map(int, (user, nice, system, irq, softirq)))
                    for _, user, nice, system, _idle, _wait, irq, softirq, *_ in rows)  # fmt: skip
        return ticks / float(os.sysconf("SC_CLK_TCK")) if len(rows) == len(names) else None
    except (OSError, ValueError):
        return None


def _own_seconds() -> float:
    """Return the CPU seconds of this process and of its descendants; without the running ones except on Linux."""
    ended = os.times()
    running = sum(map(_tree_seconds, _children("self")))
    return time.process_time() + ended.children_user + ended.children_system + running


def _tree_seconds(pid: str) -> float:
    """Return the CPU seconds of a process and of its descendants."""
    try:
        # The process name in parentheses may contain spaces and parentheses.
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[11:15]
    except OSError:
        return 0.0
    return sum(map(int, ticks)) / float(os.sysconf("SC_CLK_TCK")) + sum(map(_tree_seconds, _children(pid)))


def _children(pid: str) -> list[str]:
    """Return the ids of the processes that the threads of a process started, and that run."""
    children: list[str] = []
    with suppress(OSError):  # it may have ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += (thread / "children").read_text().split()
    return children


def _from_load_average() -> float | None:
    try:
        return max(0.0, os.getloadavg()[0] - 1)
    except (OSError, AttributeError):
        return None


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


def make_span_timer(device: torch.device, reset: Callable[[], None] | None) -> Callable[..., float] | None:
    """Return `time(run, wall_ns)`: the nanoseconds from the first to the last work of the device for one `run`.

    The device spins while the host queues a unit, or several short ones, so that it never waits for a launch;
    `wall_ns`, the wall time of one unit, determines how long. Gaps of about a microsecond between kernels count, and so
    does a wait if the host waits for the device (`.item()`) or if the driver's queue overflows. None for a CPU.
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
