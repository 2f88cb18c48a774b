"""The timing of one run, from the warm-up to the last refinement."""

from __future__ import annotations

import math
from collections.abc import Callable

from tcexplore.capture.hooks import Emit
from tcexplore.events import TimingSkipped, TimingVerdict
from tcexplore.timing.estimate import has_enough_pairs, make_estimate
from tcexplore.timing.sampler import DeviceSpanSampler, Sampler
from tcexplore.timing.samples import Conditions
from tcexplore.timing.steady_state import (
    BURST_PAIRS,
    BURST_S,
    NeverSteadyError,
    at_full_speed,
    report_interval,
    rest_duration,
)
from tcexplore.timing.timed_machine import TimedMachine, this_machine
from tcexplore.timing.timing_verdict import is_crowded, is_loaded
from tcexplore.timing.workload import Pause, Workload

FIRST_REPORT_S = 0.2
"""Seconds of pairs before the first estimate."""

DOUBLINGS = 2
"""How often the time may be doubled if the verdict is undecided; more attempts would find differences by chance."""

INTERRUPTION_NS = 100_000_000
"""A pause longer than requested by this much does not count as measurement time."""

PATIENCE_S = 10.0
"""After this many seconds few pairs are enough for a verdict."""


def measure_timing(
    workload: Workload,
    emit: Emit,
    time_for: float | None,
    pause: Pause | None = None,
    may_time: Callable[[], bool] | None = None,
) -> None:
    """Time `workload`, emitting `PairsMeasured` and `TimingEstimate` events or one `TimingSkipped`.

    `time_for` is in seconds: None refines until the process ends, 0 skips. Measuring takes longer if a first verdict
    does (15 pairs and 5 control pairs, or 6 and 5 for slow calls); the time is doubled at most twice if the verdict is
    undecided. Exceptions of the user's code propagate. `pause` is called between pairs. Once `may_time` returns False,
    the last estimate stays, and only `pause` is called.
    """
    if time_for == 0:
        emit(TimingSkipped(reason="timing is switched off for this run"))
        return
    measure_timing_on(this_machine(workload, emit), workload, emit, time_for, pause, may_time)


def measure_timing_on(
    machine: TimedMachine,
    workload: Workload,
    emit: Emit,
    time_for: float | None,
    pause: Pause | None = None,
    may_time: Callable[[], bool] | None = None,
) -> None:
    """Do the same as `measure_timing` on the given machine."""
    try:
        _Measurement(machine, workload, emit, time_for, pause, may_time).run()
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
        may_time: Callable[[], bool] | None,
    ) -> None:
        self._machine = machine
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
        self._verdict: TimingVerdict | None = None

    def run(self) -> None:
        self._measure_at_full_speed()
        for _ in range(DOUBLINGS):
            if self._over() and self._verdict == "undecided":
                self._time_for = 2 * self._elapsed()
                self._measure_at_full_speed()
        while not self._over():
            self._refine()

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
            full_speed = at_full_speed(
                self._elapsed(), answered=self._has_enough_pairs(), full=self._sampler.samples.full
            )
        self._report()

    def _refine(self) -> None:
        """Rest, measure a burst of pairs, report an estimate.

        Other processes that leave no room would only spoil a verdict, so there is no burst beside them.
        """
        self._rest(min(rest_duration(self._burst_s, self._elapsed()), self._left()))
        decided = self._verdict in ("faster", "slower", "no difference")
        if not self._may_time() or (decided and self._has_no_room()):
            return
        began = self._elapsed()
        self._sampler.warm_up()
        for _ in range(BURST_PAIRS):
            self._sampler.measure_pair()
            if self._elapsed() - began >= BURST_S or self._over():
                break
        self._report()
        self._burst_s = self._elapsed() - began

    def _has_no_room(self) -> bool:
        """Return whether other processes would make a timing unreliable now."""
        machine, busy = self._machine, self._read_busy_cores()
        return is_crowded(busy, machine.threads, machine.cores) or is_loaded(busy, machine.cores)

    def _read_busy_cores(self) -> float | None:
        """Return the cores in use by others; the last known number if too little time has passed since a reading."""
        busy = self._machine.busy_cores()
        if busy is not None:
            self._busy_cores = busy
        return self._busy_cores

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

    def _report(self) -> None:
        samples = self._sampler.samples
        chunks = samples.take_unsent()
        for chunk in chunks:
            self._emit(chunk)
        # After PATIENCE_S the same pairs may be enough for a verdict.
        if samples.measured.taken and (chunks or self._verdict == "measuring"):
            self._device_spans.sample(self._sampler)
            estimate = make_estimate(samples, self._conditions())
            self._verdict = estimate.verdict
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
            busy_cores=self._read_busy_cores(),
            governor=machine.governor,
            resets=workload.reset is not None,
            fresh_heap=workload.fresh_heap,
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
