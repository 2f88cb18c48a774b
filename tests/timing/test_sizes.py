from __future__ import annotations

import pytest

from tcexplore.timing.block_sizes import ALIKE, MOST_TIMES, WARMED_NS, sizes

AIM = 2e6


@pytest.mark.parametrize("eager_ns", [3e3, 1.1e5, 0.7e6])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.2, 2.0, 10.0])
def test_blocks_of_both_sides_last_as_long_as_each_other(eager_ns: float, ratio: float):
    eager, compiled = sizes(eager_ns, eager_ns / ratio, AIM)
    lengths = (eager.units * eager_ns, compiled.units * eager_ns / ratio)
    assert lengths[0] == pytest.approx(lengths[1], rel=ALIKE)
    assert min(lengths) >= AIM / 2
    assert max(lengths) <= max(MOST_TIMES * AIM, eager_ns / min(1, ratio))


def test_sides_that_no_whole_units_make_alike_come_as_close_as_they_can():
    eager, compiled = sizes(1.9e6, 1.0e6, AIM)
    assert eager.units * 1.9 == pytest.approx(compiled.units * 1.0, rel=0.06)
    assert sizes(1.9e6 * 1.05, 1.9e6, AIM) == ((1, 1), (1, 1))


@pytest.mark.parametrize("unit_ns", [3e3, 1e6, 4e6])
def test_both_sides_are_warmed_for_as_long_as_the_longer_unit(unit_ns: float):
    eager, compiled = sizes(unit_ns, unit_ns / 10, AIM)
    assert (eager.warm, compiled.warm) == (1, 10)


def test_long_units_are_one_block_and_not_warmed():
    eager, compiled = sizes(3e9, 1e9, AIM)
    assert eager == (1, 0)
    assert compiled == (3, 0)
    assert sizes(1.9e9, 1e9, AIM) == ((1, 0), (1, 0)), "no second unit that is a second long"
    assert WARMED_NS < 1e9
