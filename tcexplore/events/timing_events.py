"""Timing: single calls, interleaved pairs, the estimate from them, and the lines of a call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.inductor_events import GraphPhase

Variant = Literal["eager", "compiled"]

TimingVerdict = Literal["faster", "slower", "no difference", "undecided", "measuring"]
"""`measuring` until there are enough pairs for one of the others."""

LOAD_CORES = 0.5
"""Cores that other programs must use to be named as a condition of a timing."""


def load_condition(busy_cores: float | None, cores: int) -> str:
    """Return `while other programs use 2.0 of 2 cores`; an empty string if they use less than half a core."""
    if busy_cores is None or busy_cores < LOAD_CORES:
        return ""
    return f"while other programs use {min(busy_cores, cores):.1f} of {cores} core{'s' if cores != 1 else ''}"


MAX_DISAGREEMENT = 0.3
"""Figures of one unit that differ by more than this share of its timing contradict it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade(Event):
    """One call outside the timing."""

    index: int
    """Position in the calls of the model file, from 0."""
    variant: Variant
    seconds: float
    compiles: int = 0
    """Frames that this call compiled."""
    graphs: tuple[str, ...] = ()
    """Their compile ids."""
    graph_seconds: float | None = None
    """Time in compiled graphs; None if not measured."""
    frame_seconds: float | None = None
    """Time that Dynamo spends on frames outside the spans that torch logs; None if not measured."""
    cpu_seconds: float | None = None
    """CPU time of the process and of the child processes that it waited for; None if not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsMeasured(Event):
    """New interleaved blocks, in microseconds per call."""

    eager_us: tuple[float, ...]
    compiled_us: tuple[float, ...]
    control: bool = False
    """Eager against eager. In a script also compiled against compiled."""


TimedUnit = Literal["call", "step"]

LAUNCH_BOUND = 0.7
"""If kernels run for less than this share of a call's time, the device waits for launches."""


MemoryState = Literal["memory kept", "memory returned", "as the system does"]
"""What the allocator does with memory that a call frees: keeps it for the next call; returns it to the system, as glibc
does by default; or whatever this system does, without glibc and on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedProcess(Event):
    """The timing in one process. Times and page faults are medians per call."""

    memory: MemoryState
    pairs: int
    speedup: float
    """Median of the ratios of pairs, eager over compiled."""
    low: float
    """Lower end of the 95% interval of `speedup` within this process."""
    high: float
    eager_us: float
    compiled_us: float
    eager_page_faults: float | None = None
    """Minor page faults; None if the system does not count them."""
    compiled_page_faults: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReturned(Event):
    """The timing in processes whose allocator returns memory to the system, as glibc does by default."""

    processes: int
    eager_us: float
    compiled_us: float
    speedup: float
    low: float
    """Lower end of the 95% interval of `speedup`."""
    high: float
    verdict: TimingVerdict
    eager_page_faults: float
    """Minor page faults of a call."""
    compiled_page_faults: float
    differs: bool
    """Whether the interval of the speedup lies outside that of processes that keep their memory, or the verdict does
    not agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEffect(Event):
    """The ratio eager over compiled in short pairs right before and right after profiles on a GPU.

    A profiler that stays attached makes each launch slower.
    """

    ratio_before: float
    ratio_after: float
    noise: float
    """Deviation of one from the other by chance: three standard errors. 0.02 is 2%."""
    changed: bool
    """They differ by more than noise and 1%: the timing before the profiles stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRates(Event):
    """How fast the device reads and writes its memory, measured on plain ops of tensors that no cache holds."""

    read_bytes_per_s: float
    written_bytes_per_s: float
    cache_bytes: int | None = None
    """Size of the last cache before the memory; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingEstimate(Event):
    """The verdict so far; it replaces the last one. Times are medians in microseconds per call."""

    eager_us: float
    eager_spread_us: float
    """Median absolute deviation."""
    compiled_us: float
    compiled_spread_us: float
    speedup: float
    """Median of the ratios of pairs, eager over compiled."""
    low: float
    """Lower end of the 95% bootstrap interval of `speedup`."""
    high: float
    noise_floor: float
    """Deviation from 1 that as many pairs of eager with eager show by chance: three standard errors of their median,
    from the scatter of the control pairs. 0.02 is 2%."""
    pairs: int
    verdict: TimingVerdict
    threads: int
    device: str
    calls: int = 1
    """Calls in one timed unit."""
    block: int = 1
    """Units in one eager block."""
    train: bool = False
    notes: tuple[str, ...] = ()
    """Remarks on drift, outliers, discarded blocks, changed inputs."""
    block_compiled: int = 1
    """Units in one compiled block; blocks of both sides take about the same time."""
    control_pairs: int = 0
    pairs_taken: int = 0
    """All pairs measured so far; the newest `pairs` of them count."""
    pairs_discarded: int = 0
    """Pairs during which something was compiled."""
    eager_outliers: int = 0
    """Blocks beyond Tukey's fences (1.5 interquartile ranges), counted but not removed."""
    compiled_outliers: int = 0
    eager_halves_us: tuple[float, ...] = ()
    """Medians of the first and of the second half of the blocks; empty while there are too few."""
    compiled_halves_us: tuple[float, ...] = ()
    fastest_eager_us: float | None = None
    """Fastest timed unit, per call; None if units are not timed one by one."""
    fastest_compiled_us: float | None = None
    fastest_control_us: float | None = None
    """Fastest unit of eager as the second side of a control pair, per call."""
    eager_kernels_us: float | None = None
    """Time in which kernels, copies and fills run in one call, from a profile after the timing. What overlaps counts
    once. None before the profile, and on a CPU."""
    compiled_kernels_us: float | None = None
    eager_device_span_us: float | None = None
    """From the start of a call's first kernel to the end of its last, with the gaps between them, while launches are
    queued ahead. None on a CPU."""
    compiled_device_span_us: float | None = None
    launch_bound: bool | None = None
    """Whether kernels run for less than 70% of the time of a compiled call. None if `compiled_kernels_us` is None."""
    cores: int = 0
    """Cores of the machine; 0 if unknown."""
    busy_cores: float | None = None
    """Cores that other programs used meanwhile; None if unknown."""
    processes: tuple[TimedProcess, ...] = ()
    """The processes that count so far, this run's own first: `speedup` and its interval are over those in the state of
    the first."""
    processes_to_come: int = 0
    """Processes that are still to be timed."""
    memory_returned: MemoryReturned | None = None
    """The timing with the allocator's defaults; None if it was not measured."""
    unit: TimedUnit = "call"
    """What the times are of: a call of the program, or a step of a script."""

    @property
    def unit_us(self) -> float:
        """Time of one compiled unit: all its calls."""
        return self.compiled_us * self.calls

    def with_kernels(self, eager_us: float | None, compiled_us: float | None) -> TimingEstimate:
        """Return this estimate with the time in which kernels run, in microseconds per unit."""
        eager, compiled = (None if us is None else us / self.calls for us in (eager_us, compiled_us))
        bound = None if compiled is None else compiled < LAUNCH_BOUND * self.compiled_us
        return replace(self, eager_kernels_us=eager, compiled_kernels_us=compiled, launch_bound=bound)

    @property
    def differing_memory_returned(self) -> MemoryReturned | None:
        """The timing with the allocator's defaults, if it differs from this one."""
        return self.memory_returned if self.memory_returned is not None and self.memory_returned.differs else None

    @property
    def processes_timed(self) -> int:
        """The number of processes that the speedup is of."""
        return sum(process.memory == self.processes[0].memory for process in self.processes) if self.processes else 1

    @property
    def load(self) -> str:
        """`while other programs use 2.0 of 2 cores`; empty if they use less than half a core."""
        return load_condition(self.busy_cores, self.cores)

    def agrees_with(self, us: float, *, overhead_us: float = 0.0, at_most: bool = False) -> bool:
        """Return whether a unit that took `us` microseconds agrees with this timing, to 30%.

        Up to `overhead_us` of it may be due to its measurement. `at_most` only requires that it is not longer.
        """
        not_longer = us - overhead_us <= (1 + MAX_DISAGREEMENT) * self.unit_us
        return not_longer and (at_most or us >= (1 - MAX_DISAGREEMENT) * self.unit_us)


StepBorder = Literal["optimizer", "region", "function"]
"""Where a step of a script begins: at the first call of a region after the optimizer changed its parameters, at a call
of a region, or at a call of the function that the user names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRegion(Event):
    """A compiled region in the steps of a script. Times are medians of a whole step."""

    region: int
    calls: float
    """Calls in one step, without those that the backward makes."""
    eager_us: float | None = None
    """A step in which this region alone runs eagerly. None: not measured."""
    compiled_us: float | None = None
    """A compiled step beside it."""
    speedup: float | None = None
    low: float | None = None
    """Lower end of the 95% interval of `speedup`."""
    high: float | None = None
    verdict: TimingVerdict = "measuring"
    pairs: int = 0
    share: float | None = None
    """Share of a compiled step in graphs of this region, forward and backward, 0 to 1. None: not profiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart(Event):
    """A part of a compiled step outside the graphs, on the thread that makes the steps."""

    name: str
    us: float
    """In one step, scaled to the time of a step without the profiler."""
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTimed(Event):
    """The steps of a script so far; it replaces the last one. Their times are in `TimingEstimate`."""

    border: StepBorder
    step: str
    """Name of the region, of the optimizer or of the function at whose call a step begins."""
    steps: int
    """All steps so far."""
    warm_up: int
    """Steps before the first that is timed: those that compile, and those until the times are stable."""
    eager: int
    """Steps that ran eagerly."""
    timed: int
    """Steps in the pairs."""
    irregular: int = 0
    """Steps with other calls or inputs than usual, such as the last batch of an epoch. They are not timed."""
    varying: bool = False
    """Whether the shapes of the inputs vary from step to step."""
    regions: tuple[StepRegion, ...] = ()
    rest: tuple[StepPart, ...] = ()
    """Empty: not profiled."""
    steps_per_epoch: float | None = None
    """Length of the DataLoader over the batches of one step. None: unknown."""
    repeats: int = 0
    """How often the script ran again, for more steps."""
    random: bool = False
    """Whether the steps draw random numbers in a region. Eager and compiled draw different ones."""
    stopped: str = ""
    """Why the steps are not alternated, or no longer, before the timing is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSkipped(Event):
    """The run is not timed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerLine:
    """The ops that a line called; a backward op counts for the line of its forward op."""

    location: Location
    phase: GraphPhase
    us: float


RestName = Literal["Python and launch", "unattributed"]
"""`unattributed`: ops of no known line. `Python and launch`: the host's work between the ops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerModule:
    """A module that ran in the eager call; a backward op counts for the module of its forward op."""

    path: str
    """From the outermost module; empty for that one, and for what ran in no module if `root` is empty too."""
    root: str
    """Class of the outermost module, with a number if the program has several of it."""
    type: str
    """Name of its class."""
    us: float
    """Without the modules inside it. On a CPU with its share of the time between the ops, by measured gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerLinesTimed(Event):
    """One warm eager call by line; lines and rest add up to it. On a GPU, ops have the time of the device."""

    call_us: float
    lines: tuple[EagerLine, ...]
    rest: tuple[tuple[RestName, float], ...] = ()
    modules: tuple[EagerModule, ...] = ()
    """The same call by module, in the order of execution. On a CPU they add up to the call, on a GPU to the lines."""
    estimated: bool = False
    """Whether the machine ran over 10% faster or slower than in the timing, or the lines add up to more than the
    call."""
