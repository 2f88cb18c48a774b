from __future__ import annotations

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.sampler import Sampler
from tests.timing.simulation import SimulatedClock, simulated_clock, workload


def sampler(clock: SimulatedClock, quick_from: float, late: float) -> Sampler:
    """Eager takes 0.1 ms and compiled 0.1 ms from `quick_from` on the clock, 20 ms before."""

    def compiled() -> None:
        clock.work(late if clock.now < quick_from else 1e5)

    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=None, shortest_ns=2_000_000)
    return Sampler(workload(lambda: clock.work(1e5), compiled), timer, lambda: 0)


def test_blocks_are_sized_anew_where_the_warm_up_saw_nothing_but_interruptions():
    clock = simulated_clock()
    made = sampler(clock, quick_from=1.5e9, late=2e7)
    assert made.compiled_block.units == 1
    while clock.now < 1.6e9:
        made.pair()
    assert (made.eager_block, made.compiled_block) == ((20, 1), (20, 1))


def test_blocks_stay_as_they_are_where_times_only_jitter():
    clock = simulated_clock()
    made = sampler(clock, quick_from=1.5e9, late=1.2e5)
    before = made.eager_block, made.compiled_block
    while clock.now < 1.6e9:
        made.pair()
    assert (made.eager_block, made.compiled_block) == before
