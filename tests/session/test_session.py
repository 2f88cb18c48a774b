"""A session keeps the last good result in view and does not mix runs."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.events import Location
from tcexplore.session import Session, changes, summarize


def graph(run: int, name: str = "0/0", ops: int = 3) -> ev.GraphCaptured:
    return ev.GraphCaptured(run=run, graph=name, ops=ops, nodes=(), code="")


def began(*runs: int) -> Session:
    session = Session()
    for run in runs:
        session = session.begin(ev.Job(run=run, file="/m.py", source=f"# {run}"))
    return session


def timed(run: int, speedup: float) -> ev.TimingEstimate:
    return ev.TimingEstimate(
        run=run, eager_us=2.0, eager_spread_us=0.1, compiled_us=2 / speedup, compiled_spread_us=0.1, speedup=speedup,
        low=speedup, high=speedup, noise_floor=0.01, pairs=15, verdict="faster", threads=2, device="cpu",
    )  # fmt: skip


def test_the_event_of_an_older_run_is_dropped() -> None:
    session = began(1, 2).apply(graph(1))
    assert [s.graphs for s in session.runs] == [(), ()]


def test_a_pane_shows_the_last_run_with_its_facts_until_the_new_one_has_them() -> None:
    session = began(1).apply(graph(1)).apply(ev.Finished(run=1)).begin(ev.Job(run=2, file="/m.py", source=""))
    kept = session.view(lambda s: bool(s.graphs))
    assert kept is not None
    assert (kept.run, kept is session.shown) == (1, False)
    seen = session.apply(graph(2)).view(lambda s: bool(s.graphs))
    assert seen is not None
    assert seen.run == 2


def test_a_failed_run_leaves_the_last_good_result_in_view() -> None:
    failure = ev.Failed(run=2, stage="importing", blame="user", type="SyntaxError", message="")
    session = began(1).apply(graph(1)).apply(ev.Finished(run=1)).begin(ev.Job(run=2, file="/m.py", source=""))
    session = session.apply(failure).apply(ev.Finished(run=2))
    kept = session.view(lambda s: bool(s.graphs))
    assert kept is not None
    assert kept.run == 1
    assert session.newest is not None
    assert session.newest.status == "failed"


def test_a_complete_run_without_a_fact_is_shown_instead_of_an_older_run() -> None:
    session = began(1).apply(graph(1)).apply(ev.Finished(run=1)).begin(ev.Job(run=2, file="/m.py", source=""))
    shown = session.apply(ev.Finished(run=2)).view(lambda s: bool(s.graphs))
    assert shown is not None
    assert shown.run == 2


def test_a_run_that_only_continues_timing_is_complete() -> None:
    session = began(1).apply(ev.PhaseStarted(run=1, phase="timing", at=1.0))
    assert session.newest is not None
    assert session.newest.complete


def test_the_view_stays_until_the_user_returns_to_the_newest_run_or_saves() -> None:
    session = began(1, 2, 3)
    back = session.step(-1)
    assert (back.pinned, back.step(-1).pinned, back.step(-5).pinned) == (2, 1, 1)
    assert back.step(1).pinned is None
    assert back.begin(ev.Job(run=4, file="/m.py", source="")).pinned is None


def test_a_break_of_nested_frames_is_listed_once_with_its_count() -> None:
    one = ev.GraphBreak(
        run=1, graph="0/0", registry_id="GB0059", kind="print", reason="", location=Location("/m.py", 3)
    )
    session = began(1)
    for event in (one, replace(one, graph="1/0"), replace(one, location=Location("/m.py", 4))):
        session = session.apply(event)
    assert session.newest is not None
    assert [(b.location and b.location.line, b.count) for b in session.newest.breaks] == [(3, 2), (4, 1)]


def test_output_is_limited_and_counts_dropped_characters() -> None:
    session = began(1)
    for _ in range(50):
        session = session.apply(ev.Output(run=1, stream="stdout", text="x" * 65_536))
    snapshot = session.newest
    assert snapshot is not None
    kept = sum(len(o.text) for o in snapshot.output)
    assert kept <= 2_000_000
    assert kept + snapshot.output_dropped == 50 * 65_536


def test_changes_list_only_differences() -> None:
    session = began(1, 2)
    first, second = session.runs
    first = first.apply(graph(1)).apply(graph(1, "1/0")).apply(timed(1, 1.08))
    second = second.apply(graph(2)).apply(timed(2, 1.62))
    assert changes(summarize(first), summarize(second)) == ("graphs 2→1", "compiled 1.50× faster")
    assert changes(summarize(first), replace(summarize(first), run=9)) == ()
    recompiled = replace(summarize(first), recompiles=3)
    assert changes(recompiled, summarize(second)) == ("graphs 2→1", "recompiles 3→0", "compiled 1.50× faster")
    slower_eager = replace(timed(2, 1.62), eager_us=3.0, compiled_us=1.0)
    other_machine = summarize(second.apply(slower_eager))
    assert changes(summarize(first), other_machine) == ("graphs 2→1", "speedup 1.08×→1.62×"), "eager changed, too"
    unclear = replace(other_machine, speedup_range=(1.0, 1.9))
    assert changes(summarize(first), unclear) == ("graphs 2→1", "speedup 1.08×→1.62×, no clear difference")
    slower = replace(summarize(first), verdict="slower", speedup=0.63, timing=None)
    assert changes(slower, summarize(second))[-1] == "1.59× slower→1.62× faster"


def test_a_run_ended_by_the_next_one_is_superseded_unless_only_timing_was_missing() -> None:
    session = began(1).apply(ev.PhaseStarted(run=1, phase="dynamo", at=0.1)).begin(ev.Job(run=2, file="/m", source=""))
    session = session.apply(ev.PhaseStarted(run=2, phase="timing", at=0.1)).begin(ev.Job(run=3, file="/m", source=""))
    session = session.apply(ev.Failed(run=3, stage="file", blame="user", type="E", message="m"))
    session = session.begin(ev.Job(run=4, file="/m", source=""))
    assert [run.status for run in session.runs] == ["superseded", "ok", "failed", "running"]


def finished(*runs: int) -> Session:
    session = Session()
    for run in runs:
        session = session.begin(ev.Job(run=run, file="/m.py", source=f"# {run}")).apply(graph(run, ops=run))
        session = session.apply(ev.Finished(run=run))
    return session


def test_packed_runs_stay_in_the_history_and_open_unchanged() -> None:
    full = finished(*range(1, 13))
    packed = full.pack()
    assert len(packed.runs) == 6
    assert packed.summaries == full.summaries
    opened = packed.step(-10)
    assert opened.shown == full.runs[1]
    assert [run.run for run in opened.runs] == [2, *range(7, 13)]
    assert opened.pack().shown == full.runs[1], "the run in view is not packed"
    assert opened.step(20).pack().runs == packed.runs


def test_the_base_and_the_last_good_runs_are_not_packed() -> None:
    session = finished(1, 2, 3, 4).step(-3).toggle_baseline().step(9)
    for run in range(5, 20):
        session = session.begin(ev.Job(run=run, file="/m.py", source=""))
        session = session.apply(ev.Failed(run=run, stage="eager", blame="user", type="E", message=""))
    packed = session.pack()
    assert [run.run for run in packed.runs] == [1, 3, 4, *range(14, 20)]
    good = packed.view(lambda s: bool(s.graphs))
    assert good is not None
    assert good.run == 4


def test_the_history_is_limited_with_packed_runs() -> None:
    session = Session()
    for run in range(1, 80):
        session = session.begin(ev.Job(run=run, file="/m.py", source="")).pack()
    assert [summary.run for summary in session.summaries] == list(range(30, 80))


def test_the_seconds_of_each_phase_add_up() -> None:
    session = began(1)
    phases: tuple[tuple[ev.Phase, float], ...] = (
        ("importing", 0.0), ("dynamo", 0.5), ("inductor", 1.5), ("dynamo", 4.0), ("inductor", 4.25),
    )  # fmt: skip
    for phase, at in phases:
        session = session.apply(ev.PhaseStarted(run=1, phase=phase, at=at))
    assert session.newest is not None
    assert dict(session.newest.phase_seconds) == {"importing": 0.5, "dynamo": 1.25, "inductor": 2.5}
    assert session.newest.phase_at == 4.25


def test_a_graph_replaces_a_discarded_one_with_the_same_compile_id() -> None:
    kernel = ev.Kernel(run=1, graph="0/0", phase="forward", name="k", language="cpp", source="")
    session = began(1)
    for event in (graph(1), kernel, replace(kernel, graph="1/0"), graph(1, "1/0"), graph(1, ops=1)):
        session = session.apply(event)
    (snapshot,) = session.runs
    assert [(captured.graph, captured.ops) for captured in snapshot.graphs] == [("1/0", 3), ("0/0", 1)]
    assert [kernel.graph for kernel in snapshot.code.kernels] == ["1/0"]
