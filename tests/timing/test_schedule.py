from __future__ import annotations

from itertools import islice

from tcexplore.timing.pair_order import turns


def test_both_orders_are_balanced_at_any_length():
    for control in (True, False):
        orders = [turn.swapped for turn in islice(turns(), 2_000) if turn.control is control]
        for count in range(4, len(orders), 4):
            assert sum(orders[:count]) == count / 2


def test_orders_and_controls_come_at_random():
    first = list(islice(turns(1), 200))
    assert first != list(islice(turns(2), 200))
    assert first == list(islice(turns(1), 200))


def test_the_first_turns_are_enough_for_a_first_verdict():
    first = list(islice(turns(), 11))
    assert sum(turn.control for turn in first) == 5


def test_controls_go_on_at_one_turn_in_four_then_in_ten():
    assert sum(turn.control for turn in islice(turns(), 11, 31)) == 5
    later = list(islice(turns(), 31, 1_031))
    assert sum(turn.control for turn in later) == 100
