"""Breaks are ranked by cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.breaks_view import (
    breaks_document,
    explain_cost,
    format_cost,
    format_shared_cost,
)
from tcexplore.documents.line_facts import format_cost_briefly
from tcexplore.documents.strip import run_verdict
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot, summarize
from tcexplore.session.call_account import eager_ops
from tcexplore.session.ranked_breaks import rank_breaks, uncompiled_functions
from tcexplore.studies.fix import fix_gain
from tests import fakes
from tests.snapshots.estimates import ESTIMATE

FILE = "/home/me/model.py"


def at(line: int) -> ev.Location:
    return ev.Location(FILE, line, "f")


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=FILE, source="", config=ev.Config())
    for line in (3, 5, 7):
        snapshot = snapshot.apply(
            ev.GraphBreak(run=1, graph="0/0", registry_id=None, kind="k", reason="r", location=at(line))
        )
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


def test_the_most_expensive_break_is_first_and_a_whole_function_gets_the_remaining_cost():
    small = ev.BreakCost(location=at(3), us=10.0, gaps=1)
    large = ev.BreakCost(location=at(5), us=50.0, gaps=2, ops=(("aten.relu", 2, 30.0),))
    snapshot = run(ev.BreakCosts(costs=(small, large), total_us=200.0, units=5, elsewhere_us=15.0, around_us=5.0))
    ranked = rank_breaks(snapshot)
    assert [(c.graph_break.location.line, c.us, c.gap_us, c.whole_function) for c in ranked] == [
        (5, 20.0, 50.0, False), (7, 20.0, 20.0, True), (3, 10.0, 10.0, False),
    ]  # fmt: skip
    assert {(c.low_us == c.us, c.high_us, c.basis) for c in ranked} == {(True, None, "gap, at least")}
    assert format_cost_briefly(ranked[0], snapshot) == "≥20.0 µs 10%"
    assert format_cost(ranked[0], snapshot) == "at least 20.0 µs per call (10% of the profiled call, 200 µs)"
    timing = fakes.complete().timing
    assert timing is not None
    trains = replace(snapshot, timing=replace(timing, train=True))
    assert format_cost_briefly(ranked[0], trains) == "≥20.0 µs", "the share of a forward is none of a call"
    assert format_cost(ranked[0], trains) == "at least 20.0 µs per call (10% of the profiled forward, 200 µs)"
    two = replace(snapshot, entry=ev.EntryFound(name="f", kind="function", rule="", calls=(("f32[2]",), ("f32[3]",))))
    assert "of the profiled calls, 200 µs)" in format_cost(ranked[0], two)
    assert "50.0 µs from the end of this graph" in explain_cost(ranked[0])
    assert "(2 times), in which 2 ops run eagerly: aten.relu" in explain_cost(ranked[0])
    assert "plain Python" in explain_cost(ranked[1])
    assert "15.0 µs" in format_shared_cost(snapshot)


def test_unknown_costs_are_not_shown():
    ranked = rank_breaks(run())
    assert [c.graph_break.location.line for c in ranked] == [3, 5, 7]
    assert {(format_cost_briefly(c, run()), format_cost(c, run()), explain_cost(c)) for c in ranked} == {("", "", "")}
    two_unknown = rank_breaks(run(ev.BreakCosts(costs=(), total_us=9.0, units=3, around_us=9.0)))
    assert {c.us for c in two_unknown} == {None}


def measured(first: float, second: float) -> ev.BreakCosts:
    costs = tuple(ev.BreakCost(location=at(line), us=us, gaps=1) for line, us in ((3, first), (5, second)))
    return ev.BreakCosts(costs=costs, total_us=200.0, units=5)


TIMED = ev.ChangeTimed(before_us=200.0, after_us=100.0, speedup=2.0, low=1.6, high=2.5, verdict="faster", pairs=20)
FIX = ev.BreakFix(location=at(3), kind="k", state="verified", gain=fix_gain(TIMED))


def test_the_cost_of_a_break_is_the_gain_of_its_verified_fix():
    snapshot = run(measured(10.0, 50.0), FIX)
    costed = {c.graph_break.location.line: c for c in rank_breaks(snapshot)}[3]
    assert (costed.us, costed.basis, costed.share, costed.gap_us) == (100.0, "verified fix", 0.5, 10.0)
    assert costed.low_us == pytest.approx(75.0)
    assert costed.high_us == pytest.approx(120.0)
    assert format_cost_briefly(costed, snapshot) == "100 µs 50%"
    assert (
        format_cost(costed, snapshot) == "100 µs [75.0 µs, 120 µs] per call (50% of the call without the fix, 200 µs)"
    )
    assert "the call now minus the call with the fix" in explain_cost(costed)
    slower = replace(FIX, gain=fix_gain(replace(TIMED, speedup=0.8, low=0.5, high=1.25)))
    (costed,) = (c for c in rank_breaks(run(slower)) if c.graph_break.location.line == 3)
    assert format_cost_briefly(costed, snapshot) == "cost undecided"
    assert format_cost(costed, snapshot) == "undecided, between -200 µs and 40.0 µs per call"
    undecided = run(measured(10.0, 50.0), slower)
    costed = {c.graph_break.location.line: c for c in rank_breaks(undecided)}[3]
    assert format_cost_briefly(costed, snapshot) == "≥10.0 µs 5%", "the gap is measured"
    folds = breaks_document(undecided, frozenset(), 110)
    opened = frozenset(fold for index in range(len(folds)) if (fold := folds.row(index).fold))
    document = breaks_document(undecided, opened, 110)
    texts = [document.row(index).text.strip() for index in range(len(document))]
    assert "What the fix gains is within the noise: between -200 µs and 40.0 µs per call." in texts
    slower = replace(FIX, gain=fix_gain(replace(TIMED, speedup=0.8, low=0.7, high=0.9)))
    (costed,) = (c for c in rank_breaks(run(slower)) if c.graph_break.location.line == 3)
    assert format_cost_briefly(costed, snapshot) == "-50.0 µs -25%"


def test_a_gap_that_only_eager_ops_fill_costs_nothing_certain():
    snapshot = run(measured(0.0, 50.0))
    costed = {c.graph_break.location.line: c for c in rank_breaks(snapshot)}[3]
    assert format_cost_briefly(costed, snapshot) == "cost unclear"
    assert format_cost(costed, snapshot) == "nothing certain per call"


def test_a_fix_on_top_of_another_costs_what_it_adds():
    both = replace(TIMED, after_us=50.0, speedup=4.0, low=3.8, high=4.2)
    gain = fix_gain(both, TIMED)
    assert gain.us == 50.0
    assert gain.low_us < 50.0 < gain.high_us
    assert fix_gain(replace(TIMED, verdict="measuring")) is None


def test_the_order_of_breaks_is_decided_once():
    snapshot, orders = run(), []
    estimate = replace(ESTIMATE, compiled_us=5000.0)
    later = (measured(10.0, 50.0), FIX, measured(90.0, 5.0), estimate, replace(FIX, state="refused", gain=None))
    for event in later:
        snapshot = snapshot.apply(replace(event, run=1))
        orders.append([c.graph_break.location.line for c in rank_breaks(snapshot)])
    assert orders == [[5, 3, 7]] * 5
    doubtful = rank_breaks(snapshot)[0]
    assert format_cost_briefly(doubtful, snapshot) == "cost unclear"
    assert "took 200 µs when the breaks were measured, but 5.00 ms in the timing" in doubtful.contradicted


def test_functions_that_are_not_compiled_stand_beside_the_breaks():
    skipped = [
        ev.FrameSkipped(frame=ev.Location(FILE, line, name), reason="in a loop", has_ops=has_ops)
        for line, name, has_ops in ((1, "forward", True), (1, "forward", True), (9, "helper", True), (12, "log", False))
    ]
    graph = ev.GraphCaptured(graph="1/0", ops=1, nodes=(), code="", frame=ev.Location(FILE, 9, "helper"))
    snapshot = run(graph, *skipped)
    assert [frame.frame.function for frame in uncompiled_functions(snapshot)] == ["forward"]
    assert summarize(snapshot).uncompiled == 1
    assert "✖ 3 graph breaks    ✖ 1 function not compiled" in run_verdict(snapshot).text
    document = breaks_document(snapshot)
    assert document.title == "3, 1 function not compiled"
    text = "\n".join(document.row(index).text for index in range(len(document)))
    assert "✖ 1 function not compiled" in text
    assert "skipped frames" in text
    report_ = report(snapshot, None)
    assert [frame["function"] for frame in report_["uncompiled_functions"]] == ["forward"]


def test_eager_ops_are_listed_once_with_their_lines():
    def part(name: str, us: float, line: int | None, module: str | None = None, launches: int = 1) -> ev.CallPart:
        place = at(line) if line else None
        return ev.CallPart(
            kind="eager op", name=name, us=us, low_us=us, high_us=us, location=place, module=module, launches=launches
        )

    parts = (
        part("aten.lstm", 30.0, 5, module="0.rnn", launches=2), part("aten.lstm", 20.0, 5, module="1.rnn"),
        part("aten.add", 6.0, 3), part("aten.add", 4.0, 7), part("aten.item", 1.0, None),
    )  # fmt: skip
    snapshot = run(ev.CallProfiled(total_us=100.0, repeats=3, parts=parts))
    assert eager_ops(snapshot.call_account) == (("aten.lstm", 3, 50.0), ("aten.add", 2, 10.0), ("aten.item", 1, 1.0))
    document = breaks_document(snapshot)
    rows = [document.row(index) for index in range(len(document)) if "aten." in document.row(index).text]
    assert [row.text.split("  ", 1)[1].strip() for row in rows] == [
        "50.0 µs  aten.lstm  ×3  line 5", "10.0 µs  aten.add  ×2  2 lines", "1.00 µs  aten.item",
    ]  # fmt: skip
    assert [row.location for row in rows] == [at(5), at(3), None]
