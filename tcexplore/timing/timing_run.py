"""The timing of one run, from the first warm call to the last refinement."""

from __future__ import annotations

import math
from collections.abc import Callable

from tcexplore.capture.hooks import Emit
from tcexplore.events import TimingSkipped
from tcexplore.timing.conditions import Conditions
from tcexplore.timing.device_share import DeviceShare
from tcexplore.timing.estimate import enough, estimate
from tcexplore.timing.pace import BURST_PAIRS, BURST_S, at_full_speed, report_after, rest_after
from tcexplore.timing.sampler import Sampler
from tcexplore.timing.steady_state import NeverSteadyError
from tcexplore.timing.timed_machine import TimedMachine, this_machine
from tcexplore.timing.workload import Workload

FIRST_REPORT_S = 0.2
"""Seconds of pairs before the first estimate."""

DOUBLINGS = 2
"""Times that the time is doubled where it leaves the verdict undecided; more looks would find differences by chance."""

HELD_NS = 100_000_000
"""A pause that takes so much longer than asked for was held by something else."""

PATIENCE_S = 10.0
"""After this many seconds a verdict may rest on few pairs."""


Pause = Callable[[float], bool]
"""Rests for so many seconds, none between two pairs; may do something else meanwhile, and returns whether it did."""


def measure(workload: Workload, emit: Emit, time_for: float | None, pause: Pause | None = None) -> None:
    """Time `workload` and emit what is found as it is found.

    Emits `PairsMeasured` and `TimingEstimate`, or one `TimingSkipped`. `time_for` is in seconds from now: None goes
    on refining until the process is ended, 0 skips. It is exceeded where a first verdict takes longer: that needs 15
    pairs and 5 of eager against eager, or 6 and 5 where calls are slow; and doubled, twice at most, where the verdict
    would be undecided. What the user's code raises passes through.
    `pause` is called between pairs.
    """
    if time_for == 0:
        emit(TimingSkipped(reason="timing was switched off for this run"))
        return
    measure_on(this_machine(workload, emit), workload, emit, time_for, pause)


def measure_on(
    machine: TimedMachine, workload: Workload, emit: Emit, time_for: float | None, pause: Pause | None = None
) -> None:
    """`measure` on a machine of the caller's choice."""
    try:
        _Measurement(machine, workload, emit, time_for, pause).run()
    except NeverSteadyError as error:
        emit(TimingSkipped(reason=str(error)))


class _Measurement:
    """Pairs, estimates and rests in turn, until the time is over."""

    def __init__(
        self, machine: TimedMachine, workload: Workload, emit: Emit, time_for: float | None, pause: Pause | None
    ) -> None:
        self._machine = machine
        self._pause = pause or self._sleep
        self._workload = workload
        self._emit = emit
        self._time_for = time_for
        self._started = machine.clock.now_ns()
        self._sampler = Sampler(workload, machine.timer, machine.compiles, machine.seed)
        self._device = DeviceShare(machine, workload)
        self._worked = 0.0
        self._verdict = ""

    def run(self) -> None:
        self._answer()
        for _ in range(DOUBLINGS):
            if self._over() and self._verdict == "undecided":
                self._time_for = 2 * self._elapsed()
                self._answer()
        while not self._over():
            self._refine()

    def _answer(self) -> None:
        """Pair after pair at full speed, an estimate whenever one is due."""
        due = self._elapsed() + FIRST_REPORT_S
        full_speed = True
        while full_speed and not self._over():
            if self._rest(0.0):
                self._sampler.warm()
            self._sampler.pair()
            if self._elapsed() >= due:
                self._report()
                due = self._elapsed() + report_after(self._elapsed())
            full_speed = at_full_speed(self._elapsed(), answered=self._enough(), full=self._sampler.samples.full)
        self._report()

    def _refine(self) -> None:
        """A rest, a burst of pairs, an estimate."""
        self._rest(min(rest_after(self._worked, self._elapsed()), self._left()))
        began = self._elapsed()
        self._sampler.warm()
        for _ in range(BURST_PAIRS):
            self._sampler.pair()
            if self._elapsed() - began >= BURST_S or self._over():
                break
        self._report()
        self._worked = self._elapsed() - began

    def _rest(self, seconds: float) -> bool:
        """Pause; what that takes longer than asked for, held by others, is no time of this measurement. Returns whether
        something else may have run meanwhile."""
        began = self._machine.clock.now_ns()
        acted = self._pause(seconds)
        longer_ns = self._machine.clock.now_ns() - began - round(seconds * 1e9)
        if longer_ns < HELD_NS:
            return acted
        self._started += longer_ns
        return True

    def _sleep(self, seconds: float) -> bool:
        if seconds:
            self._machine.clock.sleep(seconds)
        return False

    def _report(self) -> None:
        samples = self._sampler.samples
        new = samples.unsent()
        for chunk in new:
            self._emit(chunk)
        # With time few pairs become enough, also while none is added.
        if samples.measured.taken and (new or self._verdict == "measuring"):
            self._device.sample(self._sampler)
            drawn = estimate(samples, self._conditions())
            self._verdict = drawn.verdict
            self._emit(drawn)

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
            busy_cores=machine.busy_cores(),
            governor=machine.governor,
            restored=workload.reset is not None,
            unsettled=max(sampler.eager.spread, sampler.compiled.spread),
            slow=self._slow(),
            device_eager_us=self._device.eager_us,
            device_compiled_us=self._device.compiled_us,
            core_apart=machine.core_apart,
        )

    def _elapsed(self) -> float:
        return (self._machine.clock.now_ns() - self._started) / 1e9

    def _left(self) -> float:
        return math.inf if self._time_for is None else max(0.0, self._time_for - self._elapsed())

    def _slow(self) -> bool:
        return self._elapsed() >= PATIENCE_S

    def _enough(self) -> bool:
        return enough(self._sampler.samples, slow=self._slow())

    def _over(self) -> bool:
        return self._left() == 0 and self._enough()
