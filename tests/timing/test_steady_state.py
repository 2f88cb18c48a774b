from __future__ import annotations

import pytest

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.steady_state import MAX_CALLS, MAX_WARM_UP_S, NeverSteadyError, reach_steady_state
from tests.timing.simulation import SimulatedClock, simulated_clock


def timer_on(clock: SimulatedClock) -> BlockTimer:
    return BlockTimer(clock=clock, synchronize=lambda: None, reset=None, min_block_ns=3_000_000)


def test_calls_that_compile_are_not_timed():
    clock = simulated_clock()
    calls: list[None] = []

    def run() -> None:
        calls.append(None)
        clock.work(2e9 if len(calls) <= 5 else 1e6)

    steady = reach_steady_state(timer_on(clock), run, lambda: min(len(calls), 5))
    assert steady.unit_ns == 1e6
    assert steady.stable


def test_the_warm_up_lasts_until_times_are_stable():
    clock = simulated_clock()
    calls: list[None] = []

    def run() -> None:
        calls.append(None)
        clock.work(1e6 + 4e6 * 0.9 ** len(calls))

    steady = reach_steady_state(timer_on(clock), run, lambda: 0)
    assert steady.stable
    assert steady.unit_ns == pytest.approx(1e6, rel=0.1)


def test_interrupted_calls_do_not_determine_the_block_size():
    clock = simulated_clock()
    calls: list[None] = []

    def run() -> None:
        calls.append(None)
        clock.work(4e7 if len(calls) <= 4 else 1e5)

    assert reach_steady_state(timer_on(clock), run, lambda: 0).unit_ns == 1e5
    assert len(calls) > 100, "blocks have many calls"


def test_times_that_never_stabilize_end_the_warm_up_after_its_limit():
    clock = simulated_clock()
    calls: list[None] = []

    def run() -> None:
        calls.append(None)
        clock.work(4e6 * 1.005 ** len(calls))

    steady = reach_steady_state(timer_on(clock), run, lambda: 0)
    assert not steady.stable
    assert clock.now < (MAX_WARM_UP_S + 0.5) * 1e9


def test_a_late_compilation_restarts_the_warm_up():
    clock = simulated_clock()
    calls: list[None] = []

    def run() -> None:
        calls.append(None)
        clock.work(1e9 if len(calls) == 9 else 1e6)

    steady = reach_steady_state(timer_on(clock), run, lambda: len(calls) >= 9)
    assert steady.unit_ns == 1e6
    assert len(calls) > 9 + 3


def test_endless_compilation_raises():
    calls: list[None] = []
    with pytest.raises(NeverSteadyError, match="still compiling"):
        reach_steady_state(timer_on(simulated_clock()), lambda: calls.append(None), lambda: len(calls))
    assert len(calls) == MAX_CALLS
