from __future__ import annotations

import pytest

from tcexplore.timing.sampler import MAX_STRETCH, TOLERANCE, WARM_UP_NS, block_sizes

TARGET = 2e6


@pytest.mark.parametrize("eager_ns", [3e3, 1.1e5, 0.7e6])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.2, 2.0, 10.0])
def test_blocks_of_both_sides_take_equally_long(eager_ns: float, ratio: float):
    eager, compiled = block_sizes(eager_ns, eager_ns / ratio, TARGET)
    lengths = (eager.units * eager_ns, compiled.units * eager_ns / ratio)
    assert lengths[0] == pytest.approx(lengths[1], rel=TOLERANCE)
    assert min(lengths) >= TARGET / 2
    assert max(lengths) <= max(MAX_STRETCH * TARGET, eager_ns / min(1, ratio))


def test_blocks_are_as_equal_as_whole_units_allow():
    eager, compiled = block_sizes(1.9e6, 1.0e6, TARGET)
    assert eager.units * 1.9 == pytest.approx(compiled.units * 1.0, rel=0.06)
    assert block_sizes(1.9e6 * 1.05, 1.9e6, TARGET) == ((1, 1), (1, 1))


@pytest.mark.parametrize("unit_ns", [3e3, 1e6, 4e6])
def test_both_sides_warm_up_for_the_longer_unit(unit_ns: float):
    eager, compiled = block_sizes(unit_ns, unit_ns / 10, TARGET)
    assert (eager.warm, compiled.warm) == (1, 10)


def test_long_units_are_one_block_without_warm_up():
    eager, compiled = block_sizes(3e9, 1e9, TARGET)
    assert eager == (1, 0)
    assert compiled == (3, 0)
    assert block_sizes(1.9e9, 1e9, TARGET) == ((1, 0), (1, 0)), "one unit of a second is enough"
    assert WARM_UP_NS < 1e9
