from __future__ import annotations

import gc

import pytest

from tcexplore.timing.blocks import FEW_UNITS, BlockTimer
from tests.timing.simulation import simulated_clock


def test_a_block_lasts_long_enough_for_the_clock():
    clock = simulated_clock()
    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=None, min_block_ns=1_000_000)
    assert timer.units_per_block(250) == 4_000
    assert timer.units_per_block(5e9) == 1
    clock.resolution_ns = 10_000
    assert timer.units_per_block(250) == 80_000, "a coarse clock needs longer blocks"


def test_the_time_includes_the_wait_for_the_device():
    clock = simulated_clock()
    queued: list[float] = []

    def synchronize() -> None:
        clock.work(sum(queued))
        queued.clear()

    timer = BlockTimer(clock=clock, synchronize=synchronize, reset=None, min_block_ns=1_000_000)
    assert timer.time_block(lambda: queued.append(500.0), 10) == (500, None)


def test_resets_are_not_timed():
    clock = simulated_clock()
    order: list[str] = []

    def reset() -> None:
        order.append("reset")
        clock.work(1e9)

    def run() -> None:
        order.append("run")
        clock.work(300)

    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=reset, min_block_ns=1_000_000)
    assert timer.time_block(run, 3, warm=1).unit_ns == 300
    assert order == ["reset", "run"] * 4, "a warm unit, then three timed ones, each after a reset"


def test_a_block_of_one_unit_runs_it_once():
    clock = simulated_clock()
    runs: list[None] = []

    def run() -> None:
        clock.work(1e7)
        runs.append(None)

    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=None, min_block_ns=1_000_000)
    timer.time_block(run, 1)
    assert len(runs) == 1


def test_garbage_collection_is_disabled_inside_a_block():
    timer = BlockTimer(clock=simulated_clock(), synchronize=lambda: None, reset=None, min_block_ns=1)
    enabled: list[bool] = []
    timer.time_block(lambda: enabled.append(gc.isenabled()), 2)
    assert not any(enabled)
    assert gc.isenabled()


def test_garbage_collection_is_enabled_again_after_an_exception():
    timer = BlockTimer(clock=simulated_clock(), synchronize=lambda: None, reset=None, min_block_ns=1)
    with pytest.raises(ZeroDivisionError):
        timer.time_block(lambda: 1 / 0, 1)
    assert gc.isenabled()


def test_on_a_cpu_long_units_are_timed_one_by_one():
    clock = simulated_clock()
    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=None, min_block_ns=1, synchronous=True)
    durations = iter([400.0, 100.0, 700.0, 400.0])
    assert timer.time_block(lambda: clock.work(next(durations)), 3) == (400, 100)
    assert timer.time_block(lambda: clock.work(next(durations)), 1) == (400, None), "one unit is the block"
    assert timer.time_block(lambda: clock.work(10), FEW_UNITS + 1) == (10, None)
