"""Hangs: which ranks hold up the others, from what their processes do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore.documents.rank_alert import alert_row, hang_sentence
from tcexplore.documents.strip import verdict_row
from tcexplore.events import GraphCaptured, Job, Location
from tcexplore.events.rank_events import Divergence, DivergenceSide, RankRow, RanksCompared
from tcexplore.session import Session
from tcexplore.traces.hangs import find_hang
from tcexplore.traces.process_states import ProgressWatch, ThreadSample

NOW = 1_000_000.0
FILE = "/me/train.py"


def at(line: int, function: str = "step") -> Location:
    return Location(FILE, line, function)


WAITING = RankRow(rank=0, state="waits", since=NOW - 60, call="all_reduce", place=at(27), waits=True, stack=(at(27),))


def other(**fields: Any) -> RankRow:
    return replace(RankRow(rank=1, state="waits", since=NOW - 54, place=at(23), stack=(at(23),)), **fields)


@pytest.mark.parametrize(
    ("row", "sentence", "severity"),
    [
        (other(), "rank 1 has not reached `all_reduce` at line 27; it waits at line 23 for 54.0 s", "error"),
        (
            other(state="stopped"),
            "rank 1 has not reached `all_reduce` at line 27; it is stopped at line 23 for 54.0 s",
            "error",
        ),
        (
            other(state="ended", error="ValueError: no", stack=()),
            "rank 1 has not reached `all_reduce` at line 27; it has ended: ValueError: no at line 23 for 54.0 s",
            "error",
        ),
        (
            other(call="barrier"),
            "rank 1 waits in `barrier` at line 23, but rank 0 waits in `all_reduce` at line 27 for 54.0 s",
            "error",
        ),
        (
            other(call="all_reduce [8]", place=at(27)),
            "all ranks wait in `all_reduce [8]` at line 27 for 54.0 s",
            "error",
        ),
        (
            other(call="all_reduce", place=at(27), since=NOW - 20, waits=False),
            "all ranks wait in `all_reduce` at line 27 for 20.0 s",
            "warning",
        ),
        (
            other(call="barrier", since=NOW - 20, waits=False),
            "rank 1 waits in `barrier` at line 23, but rank 0 waits in `all_reduce` at line 27 for 60.0 s",
            "warning",
        ),
        (other(call="all_reduce", place=at(27)), "all ranks wait in `all_reduce` at line 27 for 54.0 s", "error"),
        (
            other(state="runs", since=NOW),
            "rank 1 has not reached `all_reduce` at line 27; it runs at line 23; rank 0 has waited for 60.0 s",
            "error",
        ),
    ],
)
def test_the_rank_that_holds_up_the_others_is_named(row: RankRow, sentence: str, severity: str):
    hang = find_hang([WAITING, row], NOW)
    assert hang is not None
    assert hang_sentence(hang, FILE, NOW) == sentence
    assert hang.severity == severity


def test_a_rank_that_compiles_while_others_wait_is_a_warning_at_first():
    compiles = other(state="runs", phase="inductor", graph="0/1", span="mm_template_autotuning", since=NOW)
    hang = find_hang([replace(WAITING, since=NOW - 8), compiles], NOW)
    assert hang is not None
    assert hang.severity == "warning"
    assert "it compiles 0/1 (mm_template_autotuning) at line 23; rank 0 has waited for 8.00 s" in hang_sentence(
        hang, FILE, NOW
    )


def test_ranks_that_make_progress_do_not_hang():
    assert find_hang([replace(WAITING, since=NOW - 1), other(state="runs", since=NOW)], NOW) is None
    assert find_hang([replace(WAITING, since=NOW - 1), other(since=NOW - 1)], NOW) is None
    assert find_hang([RankRow(rank=0), RankRow(rank=1)], NOW) is None


def test_a_rank_on_another_machine_may_hold_up_those_of_this_one():
    assert find_hang([WAITING, RankRow(rank=1)], NOW) is None


def samples(*values: ThreadSample | None) -> ProgressWatch:
    clock, left = iter(range(0, 100, 2)), iter(values)
    return ProgressWatch(7, sample=lambda _: next(left), now=lambda: NOW + next(clock))


def test_progress_is_cpu_time_and_waking_up_now_and_then_is_none():
    sleeping = ThreadSample("S", 1.0, 40.0)
    watch = samples(sleeping, sleeping._replace(cpu_s=1.001, idle_s=0.1), sleeping._replace(cpu_s=2.0, idle_s=0.0))
    watch.update()
    assert (watch.state, watch.since) == ("waits", NOW - 40)
    watch.update()
    assert (watch.state, watch.since) == ("waits", NOW - 40)
    watch.update()
    assert (watch.state, watch.since) == ("runs", NOW + 4)


def test_a_process_that_is_stopped_or_gone_is_named_so():
    watch = samples(ThreadSample("T", 1.0, 9.0), None)
    watch.update()
    assert (watch.state, watch.since) == ("stopped", NOW - 9)
    watch.update()
    assert watch.state == "ended"


def session_with(comparison: RanksCompared) -> Session:
    session = Session().begin(Job(run=1, file=FILE, source="", trace="rank 0 of 2"), 0.0)
    return session.apply(GraphCaptured(run=1, graph="0/0", ops=1, nodes=(), code="")).apply(comparison)


def test_a_hang_is_the_headline_of_the_main_screen_with_the_stacks():
    rows = (WAITING, other(stack=(at(23), at(48, "train"))))
    session = session_with(RanksCompared(run=1, rows=rows, hang=find_hang(rows, NOW)))
    assert " ✖ HANG   rank 1 has not reached `all_reduce` at line 27; it waits at line 23" in verdict_row(session).text
    assert "rank 1: step line 23 ← train line 48" in alert_row(session).text
    assert "identical" not in verdict_row(session).text


def test_the_first_difference_has_its_cause_and_both_sides_on_the_main_screen():
    sides = (
        DivergenceSide(ranks=(1,), text="cos(x)", location=at(12)),
        DivergenceSide(ranks=(0,), text="sin(x)", location=at(10), values=("scale == 0.75",)),
    )
    divergence = Divergence(
        kind="branch", ranks=(0, 1), location=at(9), detail="the ranks take different sides of `if scale > 0.5:`",
        sides=sides,
    )  # fmt: skip
    session = session_with(RanksCompared(run=1, rows=(WAITING, other()), divergence=divergence))
    assert "✖ BRANCH   ranks 0 and 1 first differ at line 9" in verdict_row(session).text
    text = alert_row(session).text
    assert "The ranks take different sides of `if scale > 0.5:`." in text
    assert "rank 1: cos(x)  line 12" in text
    assert "rank 0: sin(x), with scale == 0.75  line 10" in text


def test_a_missing_rank_is_the_headline_if_one_rank_is_left():
    divergence = Divergence(kind="missing rank", ranks=(1,), detail="no readable trace of rank 1 of 2")
    session = session_with(RanksCompared(run=1, rows=(WAITING,), divergence=divergence))
    assert "✖ MISSING RANK   rank 1 cannot be compared" in verdict_row(session).text
    assert "No readable trace of rank 1 of 2." in alert_row(session).text


def test_a_cause_that_begins_with_a_name_keeps_its_case():
    divergence = Divergence(kind="config", ranks=(0, 1), detail="torch._dynamo.config.assume_static differs")
    session = session_with(RanksCompared(run=1, rows=(WAITING, other()), divergence=divergence))
    assert alert_row(session).text.strip() == "torch._dynamo.config.assume_static differs."


@pytest.mark.parametrize(("kind", "style"), [("branch", "badge.break"), ("cache", "badge.warn")])
def test_what_a_correct_program_may_have_is_a_warning(kind: str, style: str):
    divergence = Divergence(kind=kind, ranks=(1,))  # type: ignore[arg-type]
    session = session_with(RanksCompared(run=1, rows=(WAITING, other()), divergence=divergence))
    assert verdict_row(session).spans[0].style == style
