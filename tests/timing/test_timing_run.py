from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tcexplore.events import Event, PairsMeasured, TimingEstimate
from tcexplore.timing.process_statistics import GPU_PROCESS_SPREAD, LAUNCH_PROCESS_SPREAD
from tcexplore.timing.samples import MAX_PAIRS
from tcexplore.timing.steady_state import BURST_PAIRS, DUTY, FULL_SPEED_S
from tcexplore.timing.timed_machine import this_machine
from tcexplore.timing.timing_run import measure_timing
from tests.timing.simulation import (
    Recorder,
    SimulatedClock,
    heavy_tails,
    simulate,
    simulated_clock,
    simulated_machine,
    workload,
)


class EndedError(BaseException):
    """The process ended."""


class TimedRecorder:
    """A recorder of events with their times, which ends the process after a while."""

    def __init__(self, clock: SimulatedClock, until: float) -> None:
        self.clock, self.until = clock, until
        self.events: list[tuple[float, Event]] = []

    def __call__(self, event: Event) -> None:
        seconds = self.clock.now / 1e9
        self.events.append((seconds, event))
        if seconds > self.until:
            raise EndedError

    @property
    def estimates(self) -> list[tuple[float, TimingEstimate]]:
        return [(at, e) for at, e in self.events if isinstance(e, TimingEstimate)]


def refine(unit_ns: float, until: float) -> TimedRecorder:
    """Run an endless measurement of a 1.5x speedup and end it after `until` seconds."""
    clock = simulated_clock(heavy_tails)
    recorder = TimedRecorder(clock, until)
    work = workload(lambda: clock.work(unit_ns * 1.5), lambda: clock.work(unit_ns))
    with pytest.raises(EndedError):
        measure_timing(work, recorder, None, machine=simulated_machine(clock))
    return recorder


def test_zero_time_skips_timing():
    recorder = Recorder()
    measure_timing(workload(lambda: 1 / 0, lambda: 1 / 0), recorder, 0)
    assert len(recorder.skipped) == len(recorder.events) == 1


def test_the_first_estimate_comes_within_half_a_second_and_has_a_verdict():
    at, first = refine(0.5e6, 1.0).estimates[0]
    assert at <= 0.5
    assert first.verdict == "faster"


def test_at_most_four_estimates_a_second_and_fewer_later():
    times = [at for at, _ in refine(2e6, 700.0).estimates]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 0.25
    assert all(gap >= 5 for at, gap in zip(times, gaps, strict=False) if at > FULL_SPEED_S + 5)
    assert gaps[-1] >= 30


def test_measuring_mostly_rests_after_the_time_at_full_speed():
    recorder = refine(50e6, 600.0)
    rest_begins = FULL_SPEED_S * 1e9
    assert recorder.clock.slept > (1 - DUTY) * (recorder.clock.now - rest_begins) / 1e9 * 0.98


def test_a_study_measures_at_full_speed_for_as_long_as_it_lets_a_cell_time():
    """A pair of a second would be followed by a rest of minutes, for which the study waits."""
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(0.6e9), lambda: clock.work(0.4e9))
    measure_timing(work, recorder, 3 * FULL_SPEED_S, machine=simulated_machine(clock), rests=False)
    assert clock.slept < 0.1
    assert recorder.last.pairs_taken > 2 * FULL_SPEED_S


def test_a_call_on_a_gpu_needs_one_core():
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(2e6), lambda: clock.work(1e6))
    machine = simulated_machine(clock, device="cuda: NVIDIA H200", threads=16, cores=16, busy_cores=lambda: 1.0)
    measure_timing(work, recorder, FULL_SPEED_S + 200, machine=machine)
    assert not any("Other programs" in note for note in recorder.last.notes)
    assert recorder.estimates[-1].pairs > recorder.estimates[0].pairs


@pytest.mark.parametrize(("threads", "cores", "busy"), [(2, 2, 1.0), (1, 16, 15.6)])
def test_other_processes_that_come_later_do_not_change_a_verdict(threads: int, cores: int, busy: float):
    clock = simulated_clock(heavy_tails)
    recorder = TimedRecorder(clock, 600.0)

    def crowded() -> bool:
        return clock.now > (FULL_SPEED_S + 10) * 1e9

    work = workload(lambda: clock.work(1.5e6), lambda: clock.work(3e6 if crowded() else 1e6))
    machine = simulated_machine(clock, threads=threads, cores=cores, busy_cores=lambda: busy if crowded() else 0.0)
    measure_timing(work, recorder, 500.0, machine=machine)
    pairs = [at for at, event in recorder.events if isinstance(event, PairsMeasured)]
    assert pairs[-1] < FULL_SPEED_S + 10, "no pair is measured beside them"
    assert recorder.estimates[-1][1].verdict == "faster"
    assert clock.now >= 500e9


def test_the_interval_narrows_with_time():
    estimates = [e for _, e in refine(1e6, 20.0).estimates]
    assert estimates[-1].high - estimates[-1].low < estimates[0].high - estimates[0].low


def test_pairs_are_limited_and_a_note_says_so():
    recorder = refine(0.1e6, 4_000.0)
    _, last = recorder.estimates[-1]
    assert last.pairs == MAX_PAIRS < last.pairs_taken
    assert any("newest 2,000" in note for note in last.notes)
    late = [e for at, e in recorder.events if at > 2_000 and isinstance(e, PairsMeasured)]
    assert sum(len(e.eager_us) for e in late) <= BURST_PAIRS * 2_000 / 30 + BURST_PAIRS


def test_pairs_are_emitted_before_their_estimate():
    recorder = simulate(1.5, heavy_tails)
    assert isinstance(recorder.events[-1], TimingEstimate)
    assert sum(len(p.eager_us) for p in recorder.pairs if not p.control) == recorder.last.pairs
    assert sum(len(p.eager_us) for p in recorder.pairs if p.control) == recorder.last.control_pairs


def test_slow_calls_get_a_verdict_after_the_time_is_over():
    recorder = simulate(1.5, heavy_tails, seconds=2.0, unit_ns=4e9)
    assert recorder.estimates[0].verdict == "measuring"
    assert len(recorder.estimates) >= 5
    assert recorder.last.verdict == "faster"
    assert recorder.last.pairs >= 6
    assert any("Calls are slow" in note for note in recorder.last.notes)


def test_few_pairs_are_enough_for_a_verdict_after_the_patience_time():
    clock, recorder = simulated_clock(), Recorder()

    def emit(event: Event) -> None:
        recorder(event)
        if isinstance(event, TimingEstimate) and 9e9 < clock.now < 10e9:
            clock.sleep(1.0)

    work = workload(lambda: clock.work(3e8), lambda: clock.work(2e8))
    measure_timing(work, emit, 1.0, machine=simulated_machine(clock))
    assert any(e.verdict == "measuring" and e.pairs == recorder.last.pairs for e in recorder.estimates)
    assert recorder.last.verdict == "faster"


def test_slow_calls_get_a_verdict_before_any_rest():
    recorder = refine(5e9, 400.0)
    verdict_s = next(at for at, e in recorder.estimates if e.verdict == "faster")
    assert verdict_s < 250, "22 calls of 5 and 7.5 s and their warm-up"


def test_times_are_per_call():
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(4e6), lambda: clock.work(1e6), calls=4, train=True)
    measure_timing(work, recorder, 1.0, machine=simulated_machine(clock))
    last = recorder.last
    assert (last.eager_us, last.compiled_us, last.calls, last.train) == (1000, 250, 4, True)
    assert (last.eager_halves_us, last.compiled_halves_us) == ((1000, 1000), (250, 250))
    assert (last.block, last.block_compiled) == (1, 4), "blocks take equally long on both sides"


def test_inputs_are_restored_before_each_unit_and_a_note_says_so():
    clock, recorder, dirty = simulated_clock(), Recorder(), [False]

    def run(nanoseconds: float) -> None:
        assert not dirty[0]
        dirty[0] = True
        clock.work(nanoseconds)

    def reset() -> None:
        dirty[0] = False
        clock.work(7e6)

    work = workload(lambda: run(2e5), lambda: run(1e5), reset=reset)
    measure_timing(work, recorder, 0.3, machine=simulated_machine(clock, reset=reset))
    assert recorder.last.eager_us == 200
    assert any("Mutated inputs are restored" in note for note in recorder.last.notes)


def recompiling(clock: SimulatedClock, on: Callable[[int], bool]) -> tuple[Callable[[], None], Callable[[], int]]:
    """Return a call that compiles for a second if `on(call number)`, else takes 4 ms, and its compile counter."""
    calls, count = [0], [0]

    def run() -> None:
        calls[0] += 1
        compiling = on(calls[0])
        count[0] += compiling
        clock.work(1e9 if compiling else 4e6)

    return run, lambda: count[0]


def test_a_pair_that_recompiles_is_discarded_and_a_note_says_so():
    clock, recorder = simulated_clock(), Recorder()
    run, compile_count = recompiling(clock, lambda call: call == 40)
    work = workload(lambda: clock.work(6e6), run)
    measure_timing(work, recorder, 2.0, machine=simulated_machine(clock, compile_count=compile_count))
    assert recorder.last.pairs_discarded == 1
    assert max(us for p in recorder.pairs for us in p.compiled_us) == 6000
    assert any("1 pair discarded" in note for note in recorder.last.notes)


@pytest.mark.parametrize("on", [lambda _: True, lambda call: call > 20 and call % 4 == 0], ids=["every", "often"])
def test_endless_compilation_skips_timing(on: Callable[[int], bool]):
    clock, recorder = simulated_clock(), Recorder()
    run, compile_count = recompiling(clock, on)
    work = workload(lambda: clock.work(6e6), run)
    measure_timing(work, recorder, 2.0, machine=simulated_machine(clock, compile_count=compile_count))
    assert "steady state" in recorder.skipped[0].reason


def test_exceptions_of_user_code_propagate():
    clock = simulated_clock()
    with pytest.raises(ZeroDivisionError):
        measure_timing(workload(lambda: 1 / 0, lambda: None), Recorder(), 1.0, machine=simulated_machine(clock))


def test_drift_is_noted_and_cancels_out():
    clock, recorder = simulated_clock(lambda c, ns: ns * (1 + c.now / 4e9)), Recorder()
    work = workload(lambda: clock.work(3e6), lambda: clock.work(2e6))
    measure_timing(work, recorder, 2.0, machine=simulated_machine(clock))
    last = recorder.last
    assert last.low <= 1.5 <= last.high
    drift = next(note for note in last.notes if note.startswith("Drift"))
    assert re.search(r"eager [\d.]+ [mµ]?s → [\d.]+ [mµ]?s", drift)


def test_outliers_are_counted_and_kept():
    clock, recorder = simulated_clock(lambda c, ns: ns * (3 if c.rng.random() < 0.15 else 1)), Recorder()
    work = workload(lambda: clock.work(4.5e6), lambda: clock.work(3e6))
    measure_timing(work, recorder, 3.0, machine=simulated_machine(clock))
    last = recorder.last
    assert last.speedup == pytest.approx(1.5)
    assert last.eager_outliers > 0.1 * last.pairs
    assert max(us for p in recorder.pairs for us in p.eager_us) == 13_500, "outliers stay in the samples"
    assert any(note.startswith("Outliers") for note in last.notes)


def test_the_span_of_the_device_is_measured_per_call():
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(2e6), lambda: clock.work(1e6))
    machine = simulated_machine(clock, device="cuda: NVIDIA H200", device_span=lambda _, wall_ns: wall_ns / 5)
    measure_timing(work, recorder, 1.0, machine=machine)
    last = recorder.last
    assert (last.eager_device_span_us, last.compiled_device_span_us) == (400, 200)
    assert last.launch_bound is None, "the span has the gaps between kernels; how long they run is not known yet"


@pytest.mark.parametrize(("span", "spread"), [(0.9, GPU_PROCESS_SPREAD), (0.2, LAUNCH_PROCESS_SPREAD)])
def test_processes_differ_more_on_a_gpu_that_waits_for_launches(span: float, spread: float):
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(2e6), lambda: clock.work(1e6))
    machine = simulated_machine(clock, device="cuda: NVIDIA H200", device_span=lambda _, wall_ns: span * wall_ns)
    measure_timing(work, recorder, 1.0, machine=machine)
    assert recorder.last.high / recorder.last.speedup == pytest.approx(math.exp(2.17 * spread), rel=1e-3)


@pytest.mark.parametrize(("kernels_us", "bound"), [(1390.0, True), (1410.0, False), (None, None)])
def test_a_call_in_which_kernels_run_for_a_small_share_is_launch_bound(kernels_us: float | None, bound: bool | None):
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(4e6), lambda: clock.work(2e6), calls=2)
    measure_timing(work, recorder, 1.0, machine=simulated_machine(clock))
    last = recorder.last.with_kernels(1800.0, kernels_us)
    assert (last.eager_kernels_us, last.launch_bound) == (900.0, bound)
    assert last.compiled_kernels_us == (None if kernels_us is None else kernels_us / 2), "per call"


def interrupted(clock: SimulatedClock, nanoseconds: float) -> float:
    """Take a time slice from half of all blocks during the first second."""
    lost = clock.now < 1e9 and clock.rng.random() < 0.5
    return nanoseconds * clock.rng.uniform(0.99, 1.01) + (4e6 if lost else 0.0)


def test_an_undecided_verdict_doubles_the_time():
    decided = simulate(1.3, heavy_tails, seconds=0.6, unit_ns=2e6)
    doubled = simulate(1.3, interrupted, seconds=0.6, unit_ns=2e6)
    assert "undecided" in [e.verdict for e in doubled.estimates]
    assert doubled.last.verdict == decided.last.verdict == "faster"
    assert doubled.last.pairs > 1.5 * decided.last.pairs


def test_time_is_doubled_at_most_twice():
    clock, recorder = simulated_clock(lambda c, ns: ns * c.rng.choice([1.0, 4.0])), Recorder()
    work = workload(lambda: clock.work(2e6), lambda: clock.work(2e6))
    measure_timing(work, recorder, 1.0, machine=simulated_machine(clock))
    assert recorder.last.verdict == "undecided"
    assert 4.0 <= clock.now / 1e9 < 4.6


def test_interruptions_do_not_count_as_measurement_time():
    def pairs(interruption_ns: float) -> int:
        clock, recorder, pauses = simulated_clock(), Recorder(), [0]

        def pause(seconds: float) -> bool:
            pauses[0] += 1
            clock.work(interruption_ns if pauses[0] == 5 else seconds * 1e9)
            return False

        work = workload(lambda: clock.work(4e6), lambda: clock.work(2e6))
        measure_timing(work, recorder, 1.0, pause, machine=simulated_machine(clock))
        return recorder.last.pairs

    assert abs(pairs(50e9) - pairs(0.0)) <= 2


def test_a_tenfold_sum_is_slower_on_this_machine():
    few, many = range(2_000), range(20_000)
    recorder = Recorder()
    work = workload(lambda: sum(many), lambda: sum(few))
    measure_timing(work, recorder, 0.1, machine=replace(this_machine(work, recorder), busy_cores=lambda: 0.0))
    last = recorder.last
    assert last.verdict == "faster"
    assert last.speedup > 3
    assert (last.device, last.threads) == ("cpu", torch.get_num_threads())


def test_the_last_estimate_stays_once_the_process_may_not_be_timed_any_more():
    clock, recorder = simulated_clock(), Recorder()
    work = workload(lambda: clock.work(4.5e6), lambda: clock.work(3e6))
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        clock.sleep(seconds)
        return False

    measure_timing(work, recorder, 20.0, pause, may_time=lambda: clock.now < 2e9, machine=simulated_machine(clock))
    assert recorder.last.verdict == "faster"
    assert clock.now >= 19e9, "commands are still answered until the time is over"
    pairs = recorder.last.pairs
    reference = Recorder()
    clock = simulated_clock()
    work = workload(lambda: clock.work(4.5e6), lambda: clock.work(3e6))
    measure_timing(work, reference, 2.0, machine=simulated_machine(clock))
    assert pairs == pytest.approx(reference.last.pairs, abs=30)
