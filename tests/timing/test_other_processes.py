"""The course of a timing that goes on in other processes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from tcexplore.events.timing_events import MemoryState
from tcexplore.timing.samples import Samples
from tcexplore.timing.timing_run import measure_timing
from tcexplore.timing.workload import Pause
from tests.timing.simulation import Recorder, heavy_tails, simulated_clock, simulated_machine, workload

KEPT: MemoryState = "memory kept"


class FakeProcesses:
    """Other processes with given speedups; None for one that fails."""

    def __init__(self, speedups: Sequence[float | None], states: Sequence[MemoryState] | None = None) -> None:
        self._speedups = list(speedups)
        self._states = states or [KEPT] * len(speedups)

    def plan(self, pair_s: float) -> Sequence[MemoryState]:  # noqa: ARG002
        return self._states

    def time(self, memory: MemoryState, seconds: float, pause: Pause) -> Samples | None:  # noqa: ARG002
        speedup, samples, rng = self._speedups.pop(0), Samples(), random.Random(1)
        if speedup is None:
            return None
        for _ in range(40):
            samples.measured.add(speedup * rng.gauss(1_000, 10), rng.gauss(1_000, 10))
        samples.busy_cores = 2.0
        return samples


def measured(others: FakeProcesses, *, own: float = 1.5) -> Recorder:
    clock, recorder = simulated_clock(heavy_tails), Recorder()
    work = workload(lambda: clock.work(own * 1e6), lambda: clock.work(1e6))
    machine = simulated_machine(clock, memory=KEPT, busy_cores=lambda: 1.0)
    measure_timing(work, recorder, 3.0, None, others, machine=machine)
    return recorder


def test_the_first_estimate_is_of_one_process_and_the_last_of_all():
    recorder = measured(FakeProcesses([1.5, 1.52, None, 1.48]))
    assert (recorder.estimates[0].processes_timed, recorder.estimates[0].processes_to_come) == (1, 4)
    assert (recorder.last.processes_timed, recorder.last.processes_to_come) == (4, 0), "one failed"
    assert recorder.last.pairs == sum(process.pairs for process in recorder.last.processes)
    assert sum(len(chunk.eager_us) for chunk in recorder.pairs if not chunk.control) == recorder.last.pairs
    assert recorder.last.verdict == "faster"
    assert recorder.last.low < 1.5 < recorder.last.high < 1.6


def test_a_disturbed_first_process_does_not_hide_what_the_others_measured():
    clock, recorder, rng = simulated_clock(heavy_tails), Recorder(), random.Random(3)
    work = workload(lambda: clock.work(1e6 * math.exp(rng.gauss(0, 1.5))), lambda: clock.work(1e6))
    machine = simulated_machine(clock, memory=KEPT, busy_cores=lambda: 1.0)
    measure_timing(work, recorder, 3.0, None, FakeProcesses([1.5] * 6), machine=machine)
    course = [(each.processes_to_come, each.processes_timed, each.verdict) for each in recorder.estimates]
    before = [(timed, verdict) for to_come, timed, verdict in course if to_come == 5]
    assert set(before) == {(1, "undecided")}
    during = [(timed, verdict) for to_come, timed, verdict in course if to_come == 2]
    assert during == [(5, "faster")]
    assert recorder.last.verdict == "faster"


def test_processes_that_disagree_leave_no_certain_verdict():
    last = measured(FakeProcesses([0.7, 2.9, 1.0, 1.4]), own=1.0).last
    assert last.verdict == "undecided"
    assert last.low < 0.9
    assert last.high > 1.5


def test_processes_with_the_defaults_of_the_allocator_are_apart():
    last = measured(FakeProcesses([1.5, 1.5, 4.0, 4.1], [KEPT, KEPT, "memory returned", "memory returned"])).last
    assert last.speedup == pytest.approx(1.5, rel=0.02)
    assert last.memory_returned is not None
    assert last.memory_returned.speedup == pytest.approx(4.05, rel=0.02)
    assert last.memory_returned.processes == 2
    assert last.memory_returned.differs
    assert any("Returned to the system" in note for note in last.notes)


def test_more_processes_are_timed_while_they_differ_too_much_for_a_precise_interval():
    returned: MemoryState = "memory returned"
    alike = FakeProcesses([1.5] * 6, [KEPT] * 4 + [returned] * 2)
    assert measured(alike).last.processes_timed == 5, "the interval is narrow"
    differing = FakeProcesses([1.2, 1.8, 1.3, 1.7, 1.4, 1.6, 1.5, 1.5, 1.5, 4.0, 4.1], [KEPT] * 4 + [returned] * 2)
    last = measured(differing).last
    assert last.processes_timed == 10
    assert last.memory_returned is not None
    assert last.memory_returned.processes == 2
    assert last.high / last.low < 1.4


def test_the_load_is_that_of_all_processes():
    last = measured(FakeProcesses([1.5, 1.5, 1.5])).last
    assert last.busy_cores == pytest.approx((1.0 + 3 * 2.0) / 4)
    assert last.load == "while other programs use 1.8 of 2 cores"
