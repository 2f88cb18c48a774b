"""Time of lines: kernels split over their lines, and what is on no line."""

from __future__ import annotations

import pytest

from tcexplore import events as ev
from tcexplore.session.line_times import LineShare, LineTimes, line_shares, line_times

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


def times(timed: ev.LinesTimed, *kernels: ev.Kernel) -> LineTimes:
    known = line_times(timed, kernels, (GRAPH,), ())
    assert known is not None
    return known


def timed_kernel(us: float) -> tuple[ev.TimedKernel, ...]:
    return (ev.TimedKernel(graph="0/0", phase="forward", kernel="k", us=us),)


def test_a_shared_kernel_is_split_by_bytes_and_marked():
    known = times(ev.LinesTimed(compiled_us=100.0, kernels=timed_kernel(80.0)), KERNEL)
    assert [(time.line, time.compiled_us, time.shared) for time in known.lines] == [(1, 60.0, True), (2, 20.0, True)]
    assert [time.share for time in known.lines] == pytest.approx([0.6, 0.2])


def test_an_unknown_kernel_is_unattributed():
    known = times(ev.LinesTimed(compiled_us=100.0, kernels=timed_kernel(80.0)))
    assert [(rest.name, rest.compiled_us) for rest in known.rest] == [("unattributed", 80.0)]


def test_a_share_adds_up_both_phases_and_is_estimated_if_one_is():
    eager = (
        ev.EagerLine(location=ONE, phase="forward", us=10.0),
        ev.EagerLine(location=ONE, phase="backward", us=20.0),
        ev.EagerLine(location=TWO, phase="forward", us=0.0),
    )
    shares = line_shares(times(ev.LinesTimed(eager_us=100.0, eager=eager)))
    assert list(shares) == [("/m.py", 1)]
    assert shares["/m.py", 1] == LineShare(30.0, 0.1 + 0.2, estimated=False)
    shares = line_shares(times(ev.LinesTimed(eager_us=100.0, eager=eager, estimated=("eager",))))
    assert shares["/m.py", 1].estimated


def test_only_the_side_of_the_shares_makes_them_estimates():
    timed = ev.LinesTimed(eager_us=1.0, compiled_us=100.0, kernels=timed_kernel(80.0), estimated=("eager",))
    assert not any(time.estimated for time in times(timed, KERNEL).lines)


def test_lines_that_were_not_measured_have_no_share():
    assert line_shares(line_times(None, (), (), ())) == {}
