"""A simulated machine whose clock advances with simulated work, with the noise of real machines."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from tcexplore.events import Event, PairsMeasured, TimingEstimate, TimingSkipped
from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.timed_machine import TimedMachine
from tcexplore.timing.timing_run import measure_timing
from tcexplore.timing.workload import Workload

Noise = Callable[["SimulatedClock", float], float]
"""Returns how many nanoseconds a piece of work takes on this clock now."""


@dataclass
class SimulatedClock:
    """A clock that advances with work and sleep; `slept` is the total sleep."""

    noise: Noise
    rng: random.Random
    resolution_ns: int = 100
    now: float = 0.0
    slept: float = 0.0

    def now_ns(self) -> int:
        return int(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds * 1e9
        self.slept += seconds
        if isinstance(self.noise, TimeSlicing):
            self.noise.wake(self)

    def work(self, nanoseconds: float) -> None:
        self.now += self.noise(self, nanoseconds)


def quiet(_: SimulatedClock, nanoseconds: float) -> float:
    return nanoseconds


def heavy_tails(clock: SimulatedClock, nanoseconds: float) -> float:
    """Add 2% of jitter, and interrupt one millisecond in fifty for an unbounded time."""
    interrupted = sum(
        clock.rng.paretovariate(1.3) * 0.2 * slice_ns for slice_ns in slices_hit(clock, 0.02, nanoseconds)
    )
    return nanoseconds * math.exp(clock.rng.gauss(0, 0.02)) + interrupted


def slices_hit(clock: SimulatedClock, per_millisecond: float, nanoseconds: float) -> Iterator[float]:
    """Split the work into slices of at most a millisecond, and yield those that are hit.

    Interruptions depend on time, not on calls.
    """
    count = math.ceil(nanoseconds / 1e6)
    slice_ns = nanoseconds / count
    chance, draw = per_millisecond * slice_ns / 1e6, clock.rng.random
    for _ in range(count):
        if draw() < chance:
            yield slice_ns


def drifting(clock: SimulatedClock, nanoseconds: float) -> float:
    """Slow down by a fifth in the first second, then oscillate by 5%, with jitter."""
    seconds = clock.now / 1e9
    slower = 1 + 0.25 * min(seconds, 1.0) + 0.05 * math.sin(seconds * 9)
    return heavy_tails(clock, nanoseconds * slower)


@dataclass
class WanderingSpeed:
    """A speed that wanders by 6% with a correlation time of 40 ms, so that neighboring pairs are correlated."""

    log_speed: float = 0.0
    updated: float = 0.0

    def __call__(self, clock: SimulatedClock, nanoseconds: float) -> float:
        correlation = math.exp(-(clock.now - self.updated) / 40e6)
        innovation = math.sqrt(1 - correlation * correlation) * clock.rng.gauss(0, 0.06)
        self.log_speed = correlation * self.log_speed + innovation
        self.updated = clock.now
        return heavy_tails(clock, nanoseconds * math.exp(self.log_speed))


@dataclass
class BusyNeighbor:
    """Another process that comes and goes; while it runs, caches are worse and it takes slices of 1 to 4 ms."""

    until: float = 0.0
    running: bool = False

    def __call__(self, clock: SimulatedClock, nanoseconds: float) -> float:
        while clock.now >= self.until:
            self.running = not self.running
            self.until = max(self.until, clock.now) + clock.rng.expovariate(1 / 0.15e9)
        if not self.running:
            return heavy_tails(clock, nanoseconds)
        lost = sum(clock.rng.uniform(1e6, 4e6) for _ in slices_hit(clock, 0.1, nanoseconds))
        return heavy_tails(clock, nanoseconds * clock.rng.uniform(1.05, 1.2)) + lost


CORES = 2
QUANTUM_NS = 3e6
"""Slice of CPU time of a process on a busy core."""

SWITCH_NS = 60_000
"""Time to refill the caches after another process has run."""


@dataclass
class TimeSlicing:
    """`busy` processes that always run share two cores with this one, which gets slices of CPU time in turn.

    With `bursts`, each of them runs and rests for 0.3 s on average. With `drift`, work takes up to that many times as
    long, in waves of 20 s: both sides drift together.
    """

    busy: int
    bursts: bool = False
    drift: float = 1.0
    left_ns: float = QUANTUM_NS
    """What is left of this process's slice."""
    running: int | None = None
    changes: float = 0.0

    def __call__(self, clock: SimulatedClock, nanoseconds: float) -> float:
        slower = 1.0
        if self.drift > 1:
            wave = (1 - math.cos(2 * math.pi * clock.now / 20e9)) / 2
            slower += (self.drift - 1) * wave
        work = nanoseconds * slower * clock.rng.uniform(1.0, 1 + 0.04 * self._running(clock))
        elapsed = 0.0
        while work > self.left_ns:
            work -= self.left_ns
            elapsed += self.left_ns
            waited = self._wait_ns(clock)
            elapsed += waited
            work += SWITCH_NS * clock.rng.uniform(0.5, 2.0) if waited else 0.0
            self.left_ns = QUANTUM_NS * clock.rng.uniform(0.8, 1.4)
        self.left_ns -= work
        return elapsed + heavy_tails(clock, work)

    def wake(self, clock: SimulatedClock) -> None:
        """Begin a new slice after a sleep; in one case of five, after another process has ended its own."""
        if clock.rng.random() < 0.2:
            clock.now += self._wait_ns(clock) * clock.rng.random()
        self.left_ns = QUANTUM_NS * clock.rng.uniform(0.8, 1.4)

    def _wait_ns(self, clock: SimulatedClock) -> float:
        """Return the time until the next slice: the others on this core take theirs first."""
        running = self._running(clock)
        if running < CORES:
            return 0.0
        others = running / CORES
        count = math.floor(others) + (clock.rng.random() < others % 1)
        return sum(QUANTUM_NS * clock.rng.uniform(0.8, 1.4) for _ in range(count))

    def _running(self, clock: SimulatedClock) -> int:
        if not self.bursts:
            return self.busy
        if self.running is None or clock.now >= self.changes:
            self.running = sum(clock.rng.random() < 0.5 for _ in range(self.busy))
            self.changes = clock.now + clock.rng.expovariate(1 / 0.3e9)
        return self.running


@dataclass
class Recorder:
    """Records emitted events."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def estimates(self) -> list[TimingEstimate]:
        return [e for e in self.events if isinstance(e, TimingEstimate)]

    @property
    def last(self) -> TimingEstimate:
        return self.estimates[-1]

    @property
    def pairs(self) -> list[PairsMeasured]:
        return [e for e in self.events if isinstance(e, PairsMeasured)]

    @property
    def skipped(self) -> list[TimingSkipped]:
        return [e for e in self.events if isinstance(e, TimingSkipped)]


def simulated_clock(noise: Noise = quiet, seed: int = 0) -> SimulatedClock:
    return SimulatedClock(noise, random.Random(seed))


def simulated_machine(
    clock: SimulatedClock, *, reset: Callable[[], None] | None = None, **changed: object
) -> TimedMachine:
    """Return a machine with one thread, no other processes and no compilations; `changed` overrides fields."""
    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=reset, min_block_ns=2_000_000)
    fields: dict[str, object] = {
        "clock": clock,
        "timer": timer,
        "compile_count": lambda: 0,
        "device": "cpu",
        "threads": 1,
        "cores": 2,
        "busy_cores": lambda: 0.0,
    }
    return TimedMachine(**{**fields, **changed})  # type: ignore[arg-type]


def workload(eager: Callable[[], object], compiled: Callable[[], object], **changed: object) -> Workload:
    fields: dict[str, object] = {"calls": 1, "train": False, "device": torch.device("cpu")}
    return Workload(eager=eager, compiled=compiled, **{**fields, **changed})  # type: ignore[arg-type]


def simulate(
    ratio: float,
    noise: Noise = quiet,
    *,
    seed: int = 0,
    seconds: float = 0.4,
    unit_ns: float = 2.2e6,
    busy_cores: float = 0.0,
) -> Recorder:
    """Run a whole measurement of an eager side that takes `ratio` times as long as the compiled one."""
    clock, recorder = simulated_clock(noise, seed), Recorder()
    work = workload(lambda: clock.work(unit_ns * ratio), lambda: clock.work(unit_ns))
    measure_timing(work, recorder, seconds, machine=simulated_machine(clock, busy_cores=lambda: busy_cores))
    return recorder
