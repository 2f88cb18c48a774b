"""Following a selection visits every row that it lights, once, in order, and back leads the same way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcexplore.session.hits import DEEPEST, Position, Trail, following, hits, rows_of
from tcexplore.session.links import Link

PANES = ("source", "graph", "code")
LINKS = [Link("node", "0/0", str(n)) for n in range(4)]
OWN = st.lists(st.lists(st.sampled_from(LINKS), max_size=2), max_size=8)


@given(st.fixed_dictionaries(dict.fromkeys(PANES, OWN)), st.sets(st.sampled_from(LINKS)), st.integers(0, 8))
def test_following_goes_through_all_hits_and_round(panes: dict[str, list[list[Link]]], chain: set[Link], start: int):
    found = hits(chain, {pane: rows_of(panes[pane]) for pane in PANES})
    lit = [Position(p, i) for p in PANES for i, links in enumerate(panes[p]) if chain.intersection(links)]
    assert list(found) == lit
    at = Position("graph", start)
    walked = []
    for _ in found:
        at = following(found, PANES, at) or at
        walked.append(at)
    assert sorted(walked) == sorted(lit)
    for expected in reversed(walked[:-1]):
        at = following(found, PANES, at, -1) or at
        assert at == expected


def test_without_hits_there_is_nowhere_to_go():
    assert following((), PANES, Position("graph", 3)) is None


def test_from_a_row_that_is_no_hit_to_the_next_one():
    found = (Position("source", 9), Position("code", 2))
    assert following(found, PANES, Position("graph", 50)) == Position("code", 2)
    assert following(found, PANES, Position("graph", 50), -1) == Position("source", 9)
    assert following(found, PANES, Position("code", 2)) == Position("source", 9)


@given(st.lists(st.builds(Position, st.sampled_from(PANES), st.integers(0, 20)), min_size=1, max_size=20, unique=True))
def test_back_and_forward_retrace_the_way(way: list[Position]):
    trail = Trail()
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


def test_leaving_forgets_what_lay_ahead_and_what_is_long_gone():
    one, two, three = (Position("graph", n) for n in range(3))
    trail, _ = Trail().leave(one).back(two)
    assert trail.leave(three).ahead == ()
    many = Trail()
    for n in range(DEEPEST + 5):
        many = many.leave(Position("graph", n))
    assert len(many.behind) == DEEPEST
    assert many.leave(many.behind[-1]).behind == many.behind
