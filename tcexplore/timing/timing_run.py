"""The timing of one run, from the warm-up to the last refinement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Protocol

from tcexplore.capture.hooks import Emit
from tcexplore.events import TimingSkipped, TimingVerdict
from tcexplore.events.timing_events import MemoryState, TimedProcess
from tcexplore.timing.estimate import has_enough_pairs, make_estimate, timed_process
from tcexplore.timing.process_statistics import combine
from tcexplore.timing.sampler import DeviceSpanSampler, Sampler
from tcexplore.timing.samples import Conditions, Samples
from tcexplore.timing.steady_state import (
    BURST_PAIRS,
    BURST_S,
    NeverSteadyError,
    at_full_speed,
    report_interval,
    rest_duration,
)
from tcexplore.timing.timed_machine import TimedMachine, this_machine
from tcexplore.timing.timing_verdict import MIN_SLOW_PAIRS, Decision, busy_threads, is_crowded
from tcexplore.timing.workload import Pause, Workload

FIRST_REPORT_S = 0.2
"""Seconds of pairs before the first estimate."""

OWN_S, OWN_SHARE = 1.5, 0.5
"""Seconds, and the share of the time, for which this process is timed before others."""

SHORTEST_PROCESS_S, LONGEST_PROCESS_S = 0.5, 10.0
"""Seconds of pairs in another process; it needs them for a few pairs of slow calls."""

SHORTEST_GPU_PROCESS_S = 1.5
"""The same on a GPU, where blocks are longer: about 30 pairs, half of them short."""

PROCESSES_LIMIT, PRECISION_LIMIT = 4.0, 8.0
"""No other process is started after this many times the time of the timing; the same for those that precision needs."""

PRECISE, MOST_PROCESSES = 0.08, 10
"""Half the width of an interval of the log speedup that is precise enough; processes that are timed to reach it.

Those of a LayerNorm on 16 MB tensors, half of a shared cache, gave 1.0 to 1.7: five left up to 0.25, ten 0.13.
"""

DOUBLINGS = 2
"""How often the time may be doubled if the verdict is undecided; more attempts would find differences by chance."""

INTERRUPTION_NS = 100_000_000
"""A pause longer than requested by this much does not count as measurement time."""

PATIENCE_S = 10.0
"""After this many seconds few pairs are enough for a verdict."""


class OtherProcesses(Protocol):
    """Times the same program in other processes, one after the other."""

    def plan(self, pair_s: float) -> Sequence[MemoryState]:
        """Return the state of the allocator in each process to time; `pair_s` are the seconds of one pair."""
        ...

    def time(self, memory: MemoryState, seconds: float, pause: Pause) -> Samples | None:
        """Return what the next process measures for `seconds`; None if it fails."""
        ...


def measure_timing(
    workload: Workload,
    emit: Emit,
    time_for: float | None,
    pause: Pause | None = None,
    others: OtherProcesses | None = None,
    may_time: Callable[[], bool] | None = None,
    machine: TimedMachine | None = None,
    front_end: int | None = None,
    *,
    rests: bool = True,
) -> None:
    """Time `workload`, emitting `PairsMeasured` and `TimingEstimate` events or one `TimingSkipped`.

    `time_for` is in seconds: None refines until the process ends, 0 skips. Measuring takes longer if a first verdict
    does (15 pairs and 5 control pairs, or 6 and 5 for slow calls); the time is doubled at most twice if the verdict is
    undecided. Exceptions of the user's code propagate. `pause` is called between pairs. After a first part of the time,
    `others` are timed too. Once `may_time` returns False, the last estimate stays, and only `pause` is
    called. `machine` is this one by default; tests simulate one. `front_end` is as in `timed_machine.OtherProcesses`.
    Unless it `rests`, it measures at full speed for the whole time.
    """
    if time_for == 0:
        emit(TimingSkipped(reason="timing is switched off for this run"))
        return
    machine = machine or this_machine(workload, emit, front_end)
    try:
        _Measurement(machine, workload, emit, time_for, pause, others, may_time, rests=rests).run()
    except NeverSteadyError as error:
        emit(TimingSkipped(reason=str(error)))


class _Measurement:
    """The measuring loop: pairs, estimates and rests until the time is over."""

    def __init__(
        self,
        machine: TimedMachine,
        workload: Workload,
        emit: Emit,
        time_for: float | None,
        pause: Pause | None,
        others: OtherProcesses | None,
        may_time: Callable[[], bool] | None,
        *,
        rests: bool,
    ) -> None:
        self._machine = machine
        self._rests = rests
        self._pause = pause or self._sleep
        self._may_time = may_time or (lambda: True)
        self._workload = workload
        self._emit = emit
        self._time_for = time_for
        self._started = machine.clock.now_ns()
        self._sampler = Sampler(workload, machine.timer, machine.compile_count, machine.seed)
        self._device_spans = DeviceSpanSampler(machine.device_span, workload)
        self._burst_s = 0.0
        self._busy_cores: float | None = None
        self._decision: Decision | None = None
        self._others = others
        self._processes: list[TimedProcess] = []
        self._processes_to_come = 0
        self._loads: list[float] = []
        """Cores that other programs used while each of the other processes was timed."""

    @property
    def _verdict(self) -> TimingVerdict | None:
        return self._decision.verdict if self._decision is not None else None

    def run(self) -> None:
        time_for = self._time_for
        if self._others is not None:
            self._time_processes(self._others)
        self._measure_at_full_speed()
        for doubling in range(DOUBLINGS):
            if time_for is not None and self._over() and self._verdict == "undecided":
                self._time_for = self._elapsed() + 2**doubling * time_for
                self._measure_at_full_speed()
        while not self._over():
            self._refine()

    def _time_processes(self, others: OtherProcesses) -> None:
        """Measure in this process for the first part of the time, then in others, one after the other."""
        time_for, pair_s = self._time_for, (self._sampler.eager.unit_ns + self._sampler.compiled.unit_ns) / 1e9
        plan = others.plan(pair_s)
        self._processes_to_come = len(plan)
        if not plan:
            return
        self._time_for = OWN_S if time_for is None else min(OWN_S, time_for * OWN_SHARE)
        self._measure_at_full_speed()
        shortest_s = SHORTEST_PROCESS_S if self._machine.device == "cpu" else SHORTEST_GPU_PROCESS_S
        seconds = min(LONGEST_PROCESS_S, max(shortest_s, MIN_SLOW_PAIRS * pair_s))
        for memory in self._states(plan, math.inf if time_for is None else time_for):
            self._read_busy_cores()
            samples = others.time(memory, seconds, self._pause)
            self._machine.restart_load()
            self._processes_to_come -= 1
            if samples is not None:
                self._add_process(samples, memory)
        self._processes_to_come = 0
        self._report(anew=True)  # now of all processes
        self._time_for = time_for
        # The time in other processes counts as that of the measurement.
        self._sampler.warm_up()

    def _states(self, plan: Sequence[MemoryState], time_for: float) -> Iterator[MemoryState]:
        """Yield the states of the processes to time, as planned, until the limit of the time.

        If the usual one is not the only state, add processes of it while they differ too much for a precise interval.
        """
        usual = [memory for memory in plan if memory == self._machine.memory]
        others = plan[len(usual) :]
        timed, limit_s = 0, PROCESSES_LIMIT * time_for
        began = self._machine.clock.now_ns()
        to_come = [*usual, *others]
        while to_come and (self._machine.clock.now_ns() - began) / 1e9 <= limit_s:
            if timed >= len(usual) and others and not self._precise() and timed + 1 < MOST_PROCESSES:
                to_come.insert(0, self._machine.memory)
                self._processes_to_come += 1
                limit_s = PRECISION_LIMIT * time_for
            timed += 1
            yield to_come.pop(0)

    def _precise(self) -> bool:
        """Return whether the interval over the processes with the usual state is narrow enough."""
        usual = self._machine.memory
        others = [process for process in self._processes if process.memory == usual]
        low, high = combine([timed_process(self._sampler.samples, usual), *others], 0).interval
        return math.log(high / low) / 2 <= PRECISE

    def _add_process(self, samples: Samples, memory: MemoryState) -> None:
        self._processes.append(timed_process(samples, memory))
        self._loads += [samples.busy_cores] if samples.busy_cores is not None else []
        if memory == self._machine.memory:
            for chunk in samples.take_unsent():
                self._emit(chunk)
        self._report(anew=True)

    def _measure_at_full_speed(self) -> None:
        """Measure pair after pair, and report an estimate whenever one is due."""
        due = self._elapsed() + FIRST_REPORT_S
        full_speed = True
        while full_speed and not self._over():
            worked = self._rest(0.0)
            if not self._may_time():
                break
            if worked:
                self._sampler.warm_up()
            self._sampler.measure_pair()
            if self._elapsed() >= due:
                self._report()
                due = self._elapsed() + report_interval(self._elapsed())
            full_speed = not self._rests or at_full_speed(
                self._elapsed(), answered=self._has_enough_pairs(), full=self._sampler.samples.full
            )
        self._report()

    def _refine(self) -> None:
        """Rest, measure a burst of pairs, report an estimate.

        Other processes that leave no room would only widen a decided interval, so there is no burst beside them.
        """
        self._rest(min(rest_duration(self._burst_s, self._elapsed()), self._left()))
        decided = self._verdict in ("faster", "slower", "no difference")
        machine = self._machine
        threads = busy_threads(machine.device, machine.threads)
        crowded = is_crowded(self._read_busy_cores(), threads, machine.cores)
        if not self._may_time() or (decided and crowded):
            return
        began = self._elapsed()
        self._sampler.warm_up()
        for _ in range(BURST_PAIRS):
            self._sampler.measure_pair()
            if self._elapsed() - began >= BURST_S or self._over():
                break
        self._report()
        self._burst_s = self._elapsed() - began

    def _read_busy_cores(self) -> float | None:
        """Return the cores in use by others; the last known number if too little time has passed since a reading."""
        busy = self._machine.busy_cores()
        if busy is not None:
            self._busy_cores = busy
        return self._busy_cores

    def _load(self) -> float | None:
        """Return the cores in use by others, the mean of what each timed process read."""
        own = self._read_busy_cores()
        return None if own is None else fmean([own, *self._loads])

    def _rest(self, seconds: float) -> bool:
        """Pause, and return whether other work may have run; its time does not count as measurement time."""
        began = self._machine.clock.now_ns()
        worked = self._pause(seconds)
        excess_ns = self._machine.clock.now_ns() - began - round(seconds * 1e9)
        if excess_ns < INTERRUPTION_NS:
            return worked
        self._started += excess_ns
        return True

    def _sleep(self, seconds: float) -> bool:
        if seconds:
            self._machine.clock.sleep(seconds)
        return False

    def _report(self, *, anew: bool = False) -> None:
        """Send new pairs, and an estimate if there are any, or `anew`."""
        samples = self._sampler.samples
        chunks = samples.take_unsent()
        for chunk in chunks:
            self._emit(chunk)
        # After PATIENCE_S the same pairs may be enough for a verdict.
        if samples.measured.taken and (chunks or anew or self._verdict == "measuring"):
            self._device_spans.sample(self._sampler)
            estimate, self._decision = make_estimate(samples, self._conditions(), self._decision, self._processes)
            self._emit(estimate)

    def _conditions(self) -> Conditions:
        machine, sampler, workload = self._machine, self._sampler, self._workload
        return Conditions(
            threads=machine.threads,
            device=machine.device,
            train=workload.train,
            calls=workload.calls,
            block=sampler.eager_block.units,
            block_compiled=sampler.compiled_block.units,
            cores=machine.cores,
            busy_cores=self._load(),
            governor=machine.governor,
            resets=workload.reset is not None,
            memory=machine.memory,
            processes_to_come=self._processes_to_come,
            warm_up_spread=max(sampler.eager.spread, sampler.compiled.spread),
            slow=self._slow(),
            eager_device_span_us=self._device_spans.eager_us,
            compiled_device_span_us=self._device_spans.compiled_us,
            reserved_core=machine.reserved_core,
        )

    def _elapsed(self) -> float:
        return (self._machine.clock.now_ns() - self._started) / 1e9

    def _left(self) -> float:
        return math.inf if self._time_for is None else max(0.0, self._time_for - self._elapsed())

    def _slow(self) -> bool:
        return self._elapsed() >= PATIENCE_S

    def _has_enough_pairs(self) -> bool:
        return has_enough_pairs(self._sampler.samples, slow=self._slow())

    def _over(self) -> bool:
        return self._left() == 0 and self._has_enough_pairs()
