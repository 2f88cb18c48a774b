from __future__ import annotations

import pytest

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.steady_state import FLAT_SECONDS, MOST_CALLS, NeverSteadyError, settle
from tests.timing.simulation import SimulatedClock, simulated_clock


def timer_on(clock: SimulatedClock) -> BlockTimer:
    return BlockTimer(clock=clock, synchronize=lambda: None, reset=None, shortest_ns=3_000_000)


def test_calls_that_compile_are_not_timed():
    clock, calls = simulated_clock(), []

    def run() -> None:
        calls.append(None)
        clock.work(2e9 if len(calls) <= 5 else 1e6)

    steady = settle(timer_on(clock), run, lambda: min(len(calls), 5))
    assert steady.unit_ns == 1e6
    assert steady.flat


def test_the_gate_waits_until_times_are_flat():
    clock, calls = simulated_clock(), []

    def run() -> None:
        calls.append(None)
        clock.work(1e6 + 4e6 * 0.9 ** len(calls))

    steady = settle(timer_on(clock), run, lambda: 0)
    assert steady.flat
    assert steady.unit_ns == pytest.approx(1e6, rel=0.1)


def test_interrupted_calls_do_not_set_the_length_of_blocks():
    clock, calls = simulated_clock(), []

    def run() -> None:
        calls.append(None)
        clock.work(4e7 if len(calls) <= 4 else 1e5)

    assert settle(timer_on(clock), run, lambda: 0).unit_ns == 1e5
    assert len(calls) > 100, "blocks of as many calls as one call takes"


def test_times_that_never_flatten_are_let_through_and_owned_up_to():
    clock, calls = simulated_clock(), []

    def run() -> None:
        calls.append(None)
        clock.work(4e6 * 1.005 ** len(calls))

    steady = settle(timer_on(clock), run, lambda: 0)
    assert not steady.flat
    assert clock.now < (FLAT_SECONDS + 0.5) * 1e9


def test_a_late_compile_starts_the_warm_up_again():
    clock, calls = simulated_clock(), []

    def run() -> None:
        calls.append(None)
        clock.work(1e9 if len(calls) == 9 else 1e6)

    steady = settle(timer_on(clock), run, lambda: len(calls) >= 9)
    assert steady.unit_ns == 1e6
    assert len(calls) > 9 + 3


def test_endless_compiling_is_given_up():
    calls: list[None] = []
    with pytest.raises(NeverSteadyError, match="still compile"):
        settle(timer_on(simulated_clock()), lambda: calls.append(None), lambda: len(calls))
    assert len(calls) == MOST_CALLS
