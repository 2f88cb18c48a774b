"""Time of lines: kernels split over their lines, and what is on no line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.events.result_events import PartKind
from tcexplore.session.call_account import call_account
from tcexplore.session.line_times import LineShare, LineTimes, line_shares, line_times, lines_of_parts
from tests.snapshots.estimates import ESTIMATE

ONE, TWO = ev.Location("/m.py", 1), ev.Location("/m.py", 2)


def node(name: str, location: ev.Location, *inputs: str, size: int = 100) -> ev.FxNode:
    return ev.FxNode(
        name=name, op="call_function", target="aten.add.Tensor", inputs=inputs, location=location,
        shape=(str(size),), dtype="f32",
    )  # fmt: skip


GRAPH = ev.AtenGraph(
    graph="0/0", phase="forward", stage="post_grad",
    nodes=(node("a", ONE, size=300), node("b", TWO, size=100)),
)  # fmt: skip
KERNEL = ev.Kernel(graph="0/0", phase="forward", name="k", language="cpp", source="", nodes=("a", "b"))


EAGER = (
    ev.EagerLine(location=ONE, phase="forward", us=10.0),
    ev.EagerLine(location=ONE, phase="backward", us=20.0),
    ev.EagerLine(location=TWO, phase="forward", us=0.0),
)


def part(kind: PartKind, us: float, name: str = "") -> ev.CallPart:
    graph, phase = ("0/0", "forward") if kind == "kernel" else ("", "")
    return ev.CallPart(kind=kind, name=name, us=us, low_us=us, high_us=us, graph=graph, phase=phase)


def compiled(*parts: ev.CallPart) -> ev.CallProfiled:
    return ev.CallProfiled(total_us=sum(part.us for part in parts), repeats=5, parts=parts)


def times(
    profile: ev.CallProfiled | None = None,
    *kernels: ev.Kernel,
    eager: ev.EagerLinesTimed | None = None,
    graph: ev.AtenGraph = GRAPH,
) -> LineTimes:
    account = call_account(profile, None)
    known = line_times(account, eager, None, lines_of_parts(account, eager, kernels, (graph,), ()))
    assert known is not None
    return known


def test_a_shared_kernel_is_split_by_bytes_and_marked():
    known = times(compiled(part("kernel", 80.0, "k"), part("guards", 20.0)), KERNEL)
    assert [(time.line, time.compiled_us, time.shared) for time in known.lines] == [(1, 60.0, True), (2, 20.0, True)]
    assert [time.share for time in known.lines] == pytest.approx([0.6, 0.2])
    assert [(rest.name, rest.compiled_us) for rest in known.rest] == [("guards", 20.0)]


def test_a_view_takes_none_of_the_time_of_the_kernel_that_reads_through_it():
    view = replace(node("a", ONE, size=300), target="aten.permute.default")
    graph = replace(GRAPH, nodes=(view, node("b", TWO, "a", size=300)))
    known = times(compiled(part("kernel", 80.0, "k")), KERNEL, graph=graph)
    assert [(time.line, time.compiled_us, time.shared) for time in known.lines] == [(2, 80.0, False)]


def test_lines_that_only_show_memory_in_another_form_share_the_kernel_that_copies_it():
    views = tuple(replace(known, target="aten.permute.default") for known in GRAPH.nodes)
    known = times(compiled(part("kernel", 80.0, "k")), KERNEL, graph=replace(GRAPH, nodes=views))
    assert [(time.line, time.compiled_us) for time in known.lines] == [(1, 40.0), (2, 40.0)]


def test_attention_has_the_time_of_its_template_and_an_epilogue_that_of_its_elements():
    queries, keys = (replace(node(name, ONE), op="placeholder", shape=("1", "2", "64", "32")) for name in ("q", "k"))
    attention = ev.FxNode(
        name="a", op="call_function", target="higher_order.flex_attention", inputs=("q", "k"), location=ONE
    )
    graph = replace(GRAPH, nodes=(queries, keys, attention, node("b", TWO, "a", size=1024)))
    kernel = replace(KERNEL, fusion="template epilogue")
    known = times(compiled(part("kernel", 257.0, "k")), kernel, graph=graph)
    assert {time.line: time.compiled_us for time in known.lines} == pytest.approx({1: 256.0, 2: 1.0})


def test_what_is_on_no_known_line_is_unattributed():
    eager = ev.EagerLinesTimed(call_us=100.0, lines=())
    known = times(compiled(part("kernel", 80.0, "other"), part("library", 5.0, "aten.mm")), KERNEL, eager=eager)
    assert [(rest.name, rest.compiled_us) for rest in known.rest] == [("unattributed", 85.0)]


def test_eager_ops_are_split_over_the_lines_outside_the_graphs():
    known = times(compiled(part("eager op", 60.0, "aten.exp")), eager=ev.EagerLinesTimed(call_us=100.0, lines=EAGER))
    by_line = {(time.line, time.phase): time.compiled_us for time in known.lines}
    assert by_line == {(1, "forward"): 20.0, (1, "backward"): 40.0, (2, "forward"): 0.0}


def test_a_share_adds_up_both_phases_and_is_estimated_if_one_is():
    eager = ev.EagerLinesTimed(call_us=100.0, lines=EAGER)
    shares = line_shares(times(eager=eager))
    assert list(shares) == [("/m.py", 1)]
    assert shares["/m.py", 1] == LineShare(30.0, 0.1 + 0.2, estimated=False)
    assert line_shares(times(eager=replace(eager, estimated=True)))["/m.py", 1].estimated


def test_eager_lines_are_scaled_to_the_timing_and_marked():
    eager = ev.EagerLinesTimed(call_us=100.0, lines=EAGER, rest=(("Python and launch", 70.0),))
    known = line_times(None, eager, replace(ESTIMATE, eager_us=200.0), ())
    assert known is not None
    assert (known.eager_us, known.lines[0].eager_us, known.rest[0].eager_us) == (200.0, 40.0, 140.0)
    assert all(time.estimated for time in known.lines)


def test_only_the_side_of_the_shares_makes_them_estimates():
    eager = ev.EagerLinesTimed(call_us=1.0, lines=(), estimated=True)
    assert not any(time.estimated for time in times(compiled(part("kernel", 80.0, "k")), KERNEL, eager=eager).lines)


def test_lines_that_were_not_measured_have_no_share():
    assert line_shares(line_times(None, None, None, ())) == {}
