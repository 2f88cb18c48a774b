"""The jump list goes back and forward."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcexplore.ui.navigation import LIMIT, JumpList, Position

PANES = ("source", "graph", "code")


@given(st.lists(st.builds(Position, st.sampled_from(PANES), st.integers(0, 20)), min_size=1, max_size=20, unique=True))
def test_back_and_forward_retrace_the_jumps(way: list[Position]):
    trail = JumpList()
    for position in way[:-1]:
        trail = trail.leave(position)
    at = way[-1]
    for expected in reversed(way[:-1]):
        trail, to = trail.back(at)
        assert to == expected
        at = to
    assert trail.back(at)[1] is None
    for expected in way[1:]:
        trail, to = trail.forward(at)
        assert to == expected
        at = to


def test_a_jump_drops_positions_ahead_and_beyond_the_limit():
    one, two, three = (Position("graph", n) for n in range(3))
    trail, _ = JumpList().leave(one).back(two)
    assert trail.leave(three).ahead == ()
    many = JumpList()
    for n in range(LIMIT + 5):
        many = many.leave(Position("graph", n))
    assert len(many.behind) == LIMIT
    assert many.leave(many.behind[-1]).behind == many.behind
