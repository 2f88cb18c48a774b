from __future__ import annotations

from itertools import cycle, islice

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.sampler import Sampler, planned_pairs
from tcexplore.timing.timing_verdict import MIN_PAIRS
from tests.timing.simulation import SimulatedClock, simulated_clock, workload


def make_sampler(clock: SimulatedClock, quick_from: float, late: float) -> Sampler:
    """Return a sampler whose sides take 0.1 ms; before `quick_from`, compiled takes `late` nanoseconds."""

    def compiled() -> None:
        clock.work(late if clock.now < quick_from else 1e5)

    timer = BlockTimer(clock=clock, synchronize=lambda: None, reset=None, min_block_ns=2_000_000)
    return Sampler(workload(lambda: clock.work(1e5), compiled), timer, lambda: 0)


def test_blocks_are_resized_if_every_warm_up_block_was_interrupted():
    clock = simulated_clock()
    sampler = make_sampler(clock, quick_from=1.5e9, late=2e7)
    assert sampler.compiled_block.units == 1
    while clock.now < 1.6e9:
        sampler.measure_pair()
    assert (sampler.eager_block, sampler.compiled_block) == ((20, 1), (20, 1))


def test_jitter_does_not_resize_blocks():
    clock = simulated_clock()
    sampler = make_sampler(clock, quick_from=1.5e9, late=1.2e5)
    before = sampler.eager_block, sampler.compiled_block
    while clock.now < 1.6e9:
        sampler.measure_pair()
    assert (sampler.eager_block, sampler.compiled_block) == before


def test_blocks_are_longer_once_there_are_enough_pairs_for_a_verdict():
    clock = simulated_clock()
    timer = BlockTimer(
        clock=clock, synchronize=lambda: None, reset=None, min_block_ns=40_000_000, first_block_ns=10_000_000
    )  # fmt: skip
    sampler = Sampler(workload(lambda: clock.work(1e6), lambda: clock.work(1e6)), timer, lambda: 0)
    first, later = set[tuple[int, int]](), set[tuple[int, int]]()
    for _ in range(40):
        known = first if len(sampler.samples.measured) < MIN_PAIRS else later
        known.add((sampler.eager_block.units, sampler.compiled_block.units))
        sampler.measure_pair()
    assert (first, later) == ({(10, 10)}, {(40, 40)})


def test_both_orders_are_balanced_at_any_length():
    for control in (True, False):
        orders = [pair.swapped for pair in islice(planned_pairs(), 2_000) if pair.control is control]
        for count in range(4, len(orders), 4):
            assert sum(orders[:count]) == count / 2


def test_the_order_is_random_but_seeded():
    first = list(islice(planned_pairs(1), 200))
    assert first != list(islice(planned_pairs(2), 200))
    assert first == list(islice(planned_pairs(1), 200))


def test_the_first_pairs_are_enough_for_a_verdict():
    first = list(islice(planned_pairs(), 11))
    assert sum(pair.control for pair in first) == 5


def test_one_pair_in_four_then_in_ten_is_a_control():
    assert sum(pair.control for pair in islice(planned_pairs(), 11, 31)) == 5
    later = list(islice(planned_pairs(), 31, 1_031))
    assert sum(pair.control for pair in later) == 100


def test_the_fastest_call_of_each_side_is_known_if_calls_are_timed_one_by_one():
    clock = simulated_clock()
    eager, compiled = cycle((3e5, 2e5, 1e5)), cycle((2e5, 3e5, 0.8e5))
    timer = BlockTimer(
        clock=clock, synchronize=lambda: None, reset=None, min_block_ns=2_000_000, synchronous=True
    )  # fmt: skip
    sampler = Sampler(workload(lambda: clock.work(next(eager)), lambda: clock.work(next(compiled))), timer, lambda: 0)
    for _ in range(20):
        sampler.measure_pair()
    assert sampler.samples.fastest_us == {"eager": 100.0, "compiled": 80.0, "control": 100.0}
