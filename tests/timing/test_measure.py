from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from tcexplore.events import Event, TimingEstimate
from tcexplore.timing.pace import BURST_PAIRS, DUTY, FULL_SPEED_S
from tcexplore.timing.samples import KEPT_PAIRS
from tcexplore.timing.timing_run import measure, measure_on
from tests.timing.simulation import (
    Recorder,
    SimulatedClock,
    heavy_tails,
    simulate,
    simulated_clock,
    simulated_machine,
    workload,
)


class Ended(BaseException):
    """The process was ended."""


class Timed:
    """A recorder that knows when each event came, and ends the process after a while."""

    def __init__(self, clock: SimulatedClock, until: float) -> None:
        self.clock, self.until = clock, until
        self.events: list[tuple[float, Event]] = []

    def __call__(self, event: Event) -> None:
        seconds = self.clock.now / 1e9
        self.events.append((seconds, event))
        if seconds > self.until:
            raise Ended

    @property
    def estimates(self) -> list[tuple[float, TimingEstimate]]:
        return [(at, e) for at, e in self.events if isinstance(e, TimingEstimate)]


def refine(unit_ns: float, until: float) -> Timed:
    """A measurement without end, of a compiled side that takes 2/3 of the eager one, ended after a while."""
    clock = simulated_clock(heavy_tails)
    timed = Timed(clock, until)
    work = workload(lambda: clock.work(unit_ns * 1.5), lambda: clock.work(unit_ns))
    with pytest.raises(Ended):
        measure_on(simulated_machine(clock), work, timed, None)
    return timed


def test_no_time_means_no_timing():
    recorder = Recorder()
    measure(workload(lambda: 1 / 0, lambda: 1 / 0), recorder, 0)
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


def test_later_the_machine_is_left_to_the_user():
    timed = refine(50e6, 600.0)
    at_a_minute = FULL_SPEED_S * 1e9
    assert timed.clock.slept > (1 - DUTY) * (timed.clock.now - at_a_minute) / 1e9 * 0.98


def test_estimates_refine():
    estimates = [e for _, e in refine(1e6, 20.0).estimates]
    assert estimates[-1].high - estimates[-1].low < estimates[0].high - estimates[0].low


def test_memory_is_bounded_and_the_estimate_says_so():
    timed = refine(0.1e6, 4_000.0)
    _, last = timed.estimates[-1]
    assert last.pairs == KEPT_PAIRS < last.pairs_taken
    assert any("newest 2,000" in note for note in last.notes)
    late = [e for at, e in timed.events if at > 2_000 and not isinstance(e, TimingEstimate)]
    assert sum(len(e.eager_us) for e in late) <= BURST_PAIRS * 2_000 / 30 + BURST_PAIRS


def test_pairs_come_before_the_estimate_drawn_from_them():
    recorder = simulate(1.5, heavy_tails)
    assert isinstance(recorder.events[-1], TimingEstimate)
    assert sum(len(p.eager_us) for p in recorder.pairs if not p.control) == recorder.last.pairs
    assert sum(len(p.eager_us) for p in recorder.pairs if p.control) == recorder.last.control_pairs


def test_slow_calls_show_progress_and_get_an_answer_beyond_their_time():
    recorder = simulate(1.5, heavy_tails, seconds=2.0, unit_ns=4e9)
    assert recorder.estimates[0].verdict == "measuring"
    assert len(recorder.estimates) >= 5
    assert recorder.last.verdict == "faster"
    assert recorder.last.pairs >= 6
    assert any("calls are slow" in note for note in recorder.last.notes)


def test_pairs_that_become_enough_with_time_alone_are_answered():
    clock, recorder = simulated_clock(), Recorder()

    def emit(event: Event) -> None:
        recorder(event)
        if isinstance(event, TimingEstimate) and 9e9 < clock.now < 10e9:
            clock.sleep(1.0)

    timed = workload(lambda: clock.work(3e8), lambda: clock.work(2e8))
    measure_on(simulated_machine(clock), timed, emit, 1.0)
    assert any(e.verdict == "measuring" and e.pairs == recorder.last.pairs for e in recorder.estimates)
    assert recorder.last.verdict == "faster"


def test_slow_calls_refined_without_end_are_answered_before_any_rest():
    timed = refine(5e9, 400.0)
    answered = next(at for at, e in timed.estimates if e.verdict == "faster")
    assert answered < 250, "22 calls of 5 and 7.5 s and their warm-up"


def test_times_are_per_call():
    clock, recorder = simulated_clock(), Recorder()
    timed = workload(lambda: clock.work(4e6), lambda: clock.work(1e6), calls=4, train=True)
    measure_on(simulated_machine(clock), timed, recorder, 1.0)
    last = recorder.last
    assert (last.eager_us, last.compiled_us, last.calls, last.train) == (1000, 250, 4, True)
    assert (last.eager_p10_us, last.compiled_p90_us) == (1000, 250)
    assert (last.eager_halves_us, last.compiled_halves_us) == ((1000, 1000), (250, 250))
    assert (last.block, last.block_compiled) == (1, 4), "blocks last as long on both sides"


def test_inputs_are_restored_before_each_unit_and_it_is_said():
    clock, recorder, dirty = simulated_clock(), Recorder(), [False]

    def run(nanoseconds: float) -> None:
        assert not dirty[0]
        dirty[0] = True
        clock.work(nanoseconds)

    def reset() -> None:
        dirty[0] = False
        clock.work(7e6)

    timed = workload(lambda: run(2e5), lambda: run(1e5), reset=reset)
    measure_on(simulated_machine(clock, reset=reset), timed, recorder, 0.3)
    assert recorder.last.eager_us == 200
    assert any("mutated inputs are restored" in note for note in recorder.last.notes)


def recompiling(clock: SimulatedClock, on: Callable[[int], bool]) -> tuple[Callable[[], None], Callable[[], int]]:
    """A call that takes a second and counts one compile wherever `on` says so, else 4 ms."""
    calls, compiles = [0], [0]

    def run() -> None:
        calls[0] += 1
        compiling = on(calls[0])
        compiles[0] += compiling
        clock.work(1e9 if compiling else 4e6)

    return run, lambda: compiles[0]


def test_a_pair_that_recompiles_is_discarded_and_it_is_said():
    clock, recorder = simulated_clock(), Recorder()
    run, compiles = recompiling(clock, lambda call: call == 40)
    timed = workload(lambda: clock.work(6e6), run)
    measure_on(simulated_machine(clock, compiles=compiles), timed, recorder, 2.0)
    assert recorder.last.pairs_discarded == 1
    assert max(us for p in recorder.pairs for us in p.compiled_us) == 6000
    assert any("1 pair discarded" in note for note in recorder.last.notes)


@pytest.mark.parametrize("on", [lambda _: True, lambda call: call > 20 and call % 4 == 0], ids=["every", "often"])
def test_compiling_without_end_is_no_timing(on: Callable[[int], bool]):
    clock, recorder = simulated_clock(), Recorder()
    run, compiles = recompiling(clock, on)
    timed = workload(lambda: clock.work(6e6), run)
    measure_on(simulated_machine(clock, compiles=compiles), timed, recorder, 2.0)
    assert "steady state" in recorder.skipped[0].reason


def test_what_the_persons_code_raises_passes_through():
    clock = simulated_clock()
    with pytest.raises(ZeroDivisionError):
        measure_on(simulated_machine(clock), workload(lambda: 1 / 0, lambda: None), Recorder(), 1.0)


def test_drift_is_named_and_cancelled():
    clock, recorder = simulated_clock(lambda c, ns: ns * (1 + c.now / 4e9)), Recorder()
    timed = workload(lambda: clock.work(3e6), lambda: clock.work(2e6))
    measure_on(simulated_machine(clock), timed, recorder, 2.0)
    last = recorder.last
    assert last.low <= 1.5 <= last.high
    drift = next(note for note in last.notes if note.startswith("drift"))
    assert re.search(r"eager [\d.]+ [mµ]?s → [\d.]+ [mµ]?s", drift)


def test_outliers_are_counted_kept_and_named():
    clock, recorder = simulated_clock(lambda c, ns: ns * (3 if c.rng.random() < 0.15 else 1)), Recorder()
    timed = workload(lambda: clock.work(4.5e6), lambda: clock.work(3e6))
    measure_on(simulated_machine(clock), timed, recorder, 3.0)
    last = recorder.last
    assert last.speedup == pytest.approx(1.5)
    assert last.eager_outliers > 0.1 * last.pairs
    assert max(us for p in recorder.pairs for us in p.eager_us) == 13_500, "kept among the samples"
    assert any(note.startswith("outliers") for note in last.notes)


def test_a_device_that_waits_for_launches_is_called_launch_bound():
    clock, recorder = simulated_clock(), Recorder()
    timed = workload(lambda: clock.work(2e6), lambda: clock.work(1e6))
    machine = simulated_machine(clock, device="cuda: NVIDIA H200", device_time=lambda _, wall_ns: wall_ns / 5)
    measure_on(machine, timed, recorder, 1.0)
    last = recorder.last
    assert (last.device_eager_us, last.device_compiled_us) == (400, 200)
    assert last.notes[0].startswith("launch-bound: the device works 200.0 of the 1000.0 µs")


def interrupted(clock: SimulatedClock, nanoseconds: float) -> float:
    """Two neighbors that take half of all blocks a time slice, for the first second."""
    lost = clock.now < 1e9 and clock.rng.random() < 0.5
    return nanoseconds * clock.rng.uniform(0.99, 1.01) + (4e6 if lost else 0.0)


def test_a_verdict_left_undecided_gets_twice_the_time():
    decided = simulate(1.3, heavy_tails, seconds=0.6, unit_ns=2e6)
    doubled = simulate(1.3, interrupted, seconds=0.6, unit_ns=2e6)
    assert "undecided" in [e.verdict for e in doubled.estimates]
    assert doubled.last.verdict == decided.last.verdict == "faster"
    assert doubled.last.pairs > 1.5 * decided.last.pairs


def test_time_is_doubled_twice_and_no_more():
    clock, recorder = simulated_clock(lambda c, ns: ns * c.rng.choice([1.0, 4.0])), Recorder()
    timed = workload(lambda: clock.work(2e6), lambda: clock.work(2e6))
    measure_on(simulated_machine(clock), timed, recorder, 1.0)
    assert recorder.last.verdict == "undecided"
    assert 4.0 <= clock.now / 1e9 < 4.6


def test_time_that_something_else_held_is_no_time_of_the_measurement():
    def pairs(held_ns: float) -> int:
        clock, recorder, asked = simulated_clock(), Recorder(), [0]

        def pause(seconds: float) -> bool:
            asked[0] += 1
            clock.work(held_ns if asked[0] == 5 else seconds * 1e9)
            return False

        timed = workload(lambda: clock.work(4e6), lambda: clock.work(2e6))
        measure_on(simulated_machine(clock), timed, recorder, 1.0, pause)
        return recorder.last.pairs

    assert abs(pairs(50e9) - pairs(0.0)) <= 2
