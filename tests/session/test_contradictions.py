"""Figures that contradict the timing are left out, with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.contradictions import KERNELS, PROFILE
from tests.timing.test_timing_notes import ESTIMATE

TIMING = replace(ESTIMATE, run=1, compiled_us=1000.0)
LINE = ev.Location("/home/me/model.py", 3, "f")


def profile(us: float, **changed: object) -> ev.CallProfiled:
    part = ev.CallPart(kind="kernel", name="k", count=1, us=us)
    return replace(ev.CallProfiled(run=1, total_us=us, repeats=5, parts=(part,)), **changed)  # type: ignore[arg-type]


def kernel(us: float, name: str = "k") -> ev.KernelTimed:
    return ev.KernelTimed(run=1, graph="0/0", phase="forward", kernel=name, us=us, launches=1, device="cpu")


def costs(total: float, at_break: float = 10.0) -> ev.BreakCosts:
    cost = ev.BreakCost(location=LINE, us=at_break, gaps=1)
    return ev.BreakCosts(run=1, costs=(cost,), total_us=total, units=5)


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=LINE.file, source="", config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(event)
    return snapshot


def missing(snapshot: Snapshot) -> dict[str, str]:
    return {fact.fact: fact.reason for fact in snapshot.missing_facts}


def test_figures_that_agree_stay():
    snapshot = run(profile(1290.0), kernel(900.0), costs(710.0), TIMING)
    assert (snapshot.call_profile, snapshot.break_costs) == (profile(1290.0), costs(710.0))
    assert snapshot.kernel_times == (kernel(900.0),)
    assert missing(snapshot) == {}


@pytest.mark.parametrize("us", [650.0, 1350.0])
@pytest.mark.parametrize("first", [False, True], ids=["profile first", "timing first"])
def test_figures_that_disagree_by_more_than_30_percent_are_left_out(us: float, first: bool):
    figures = (profile(us), kernel(10.0), costs(us))
    snapshot = run(TIMING, *figures) if first else run(*figures, TIMING)
    assert (snapshot.call_profile, snapshot.kernel_times) == (None, ())
    assert missing(snapshot) == {PROFILE: f"left out: a call profiled took {us:,.1f} µs, but 1,000.0 µs when timed"}
    contradicted = f"a call measured with its breaks took {us:,.1f} µs, but 1,000.0 µs when timed"
    assert snapshot.break_costs == replace(costs(us), contradicted=contradicted)
    later = replace(TIMING, compiled_us=us)
    assert snapshot.apply(later).break_costs == costs(us), "the mark goes once the timing agrees"


def test_a_second_profile_replaces_the_first_and_its_reason():
    slow, again = (profile(5000.0), kernel(4000.0), costs(5000.0)), (profile(1100.0), kernel(800.0), costs(1100.0))
    snapshot = run(*slow, TIMING, *again)
    assert snapshot.call_profile == profile(1100.0)
    assert (snapshot.kernel_times, snapshot.break_costs) == ((kernel(800.0),), costs(1100.0))
    assert missing(snapshot) == {}


def test_no_kernel_is_longer_than_the_call_and_no_break_costs_more():
    snapshot = run(profile(1200.0), kernel(1001.0, "long"), kernel(10.0), costs(1200.0, at_break=1100.0), TIMING)
    assert snapshot.kernel_times == (kernel(10.0),)
    assert snapshot.break_costs.contradicted
    assert missing(snapshot)[KERNELS] == "left out: long took 1,001.0 µs, but 1,000.0 µs when timed"


def test_figures_are_those_of_all_calls_of_a_unit():
    two = replace(TIMING, calls=2)
    assert run(profile(2000.0), kernel(1500.0), costs(2000.0), two).call_profile is not None
    assert "2 calls profiled took 1,000.0 µs, but 2,000.0 µs" in missing(run(profile(1000.0), two))[PROFILE]


def test_the_overhead_of_the_profiler_is_no_disagreement():
    many = (ev.CallPart(kind="extern", name="op", count=300, us=100.0),)
    assert run(profile(1800.0, parts=many), TIMING).call_profile is not None
    assert run(profile(2000.0, parts=many), TIMING).call_profile is None


def test_on_a_device_only_its_own_time_is_compared():
    assert run(profile(3000.0, device_busy_us=900.0), TIMING).call_profile is not None
    assert run(profile(3000.0, device_busy_us=1400.0), TIMING).call_profile is None


def test_break_costs_of_training_lack_the_backward_pass():
    assert run(costs(300.0), replace(TIMING, train=True)).break_costs.contradicted == ""


def test_nothing_is_left_out_before_a_verdict():
    measuring = replace(TIMING, verdict="measuring")
    assert run(profile(9000.0), costs(9000.0), measuring).missing_facts == ()


@pytest.mark.parametrize(("eager_us", "compiled_us"), [(184_000.0, 1000.0), (None, 345_000.0)])
def test_times_of_lines_from_a_much_slower_call_are_left_out(eager_us: float | None, compiled_us: float):
    lines = ev.LinesTimed(run=1, eager_us=eager_us, compiled_us=compiled_us)
    snapshot = run(lines, TIMING)
    assert snapshot.lines_timed is None
    assert missing(snapshot)[ev.RunFact.LINE_TIMES].startswith("left out: lines are parts of calls of")
    agreeing = replace(lines, eager_us=TIMING.eager_us * 1.2, compiled_us=TIMING.compiled_us * 0.8)
    assert run(TIMING, agreeing).lines_timed == agreeing
    assert missing(run(TIMING, lines, agreeing)) == {}
