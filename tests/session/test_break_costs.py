"""Breaks are ranked by cost."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.breaks_view import explain_cost, format_cost, format_cost_briefly, format_shared_cost
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks

FILE = "/home/me/model.py"


def at(line: int) -> ev.Location:
    return ev.Location(FILE, line, "f")


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=FILE, source="", config=ev.Config())
    for line in (3, 5, 7):
        snapshot = snapshot.apply(ev.GraphBreak(run=1, graph="0/0", id=None, kind="k", reason="r", location=at(line)))
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


def test_the_most_expensive_break_is_first_and_a_whole_function_gets_the_remaining_cost():
    small = ev.BreakCost(location=at(3), us=10.0, gaps=1)
    large = ev.BreakCost(location=at(5), us=50.0, gaps=2, ops=(("aten.relu", 2, 30.0),))
    snapshot = run(ev.BreakCosts(costs=(small, large), total_us=200.0, units=5, elsewhere_us=15.0, around_us=5.0))
    ranked = rank_breaks(snapshot)
    assert [(c.graph_break.location.line, c.cost_us, c.whole_function) for c in ranked if c.graph_break.location] == [
        (5, 50.0, False), (7, 20.0, True), (3, 10.0, False),
    ]  # fmt: skip
    assert format_cost_briefly(ranked[0]) == "50.0 µs 25%"
    assert format_cost(ranked[0], snapshot) == "50.0 µs per call (25%)"
    assert "(2 times); 2 ops run eagerly in between: aten.relu" in explain_cost(ranked[0])
    assert "plain Python" in explain_cost(ranked[1])
    assert "15.0 µs" in format_shared_cost(snapshot)


def test_unknown_costs_are_not_shown():
    ranked = rank_breaks(run())
    assert [c.graph_break.location.line for c in ranked if c.graph_break.location] == [3, 5, 7]
    assert {(format_cost_briefly(c), format_cost(c, run()), explain_cost(c)) for c in ranked} == {("", "", "")}
    two_unknown = rank_breaks(run(ev.BreakCosts(costs=(), total_us=9.0, units=3, around_us=9.0)))
    assert {c.cost_us for c in two_unknown} == {None}
