"""The verdict line says what each speedup is relative to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.source_view import source_document
from tcexplore.documents.strip import Elapsed, history_row, title_row, verdict_row
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.session import Session, Snapshot
from tests import fakes
from tests.documents.golden import text


def fixable(verdict: TimingVerdict = "faster") -> Snapshot:
    """Return a run with a verified fix of its break."""
    run = fakes.complete(7)
    at = ev.Location(run.file, 23)
    graph_break = ev.GraphBreak(graph="0/0", registry_id=None, kind="item", reason="no number", location=at, run=7)
    fix = ev.BreakFix(run=7, location=at, kind="item", state="verified", kernels=(3, 2), speedup=4.13)
    assert run.timing is not None
    return replace(run, breaks=(graph_break,), fixes=(fix,), timing=replace(run.timing, verdict=verdict))


@pytest.mark.parametrize("verdict", ["faster", "slower", "no difference", "undecided"])
def test_gain_of_a_fix_and_speedup_over_eager_fit_80_columns(verdict: TimingVerdict) -> None:
    text = verdict_row(Session(runs=(fixable(verdict),)), 80).text
    assert "fix ready (h): 4.1× faster than now" in text
    shown = f"1.31× {verdict}" if verdict in ("faster", "slower") else verdict
    assert text.endswith(f"vs. eager: {shown}")


def test_a_speedup_under_load_is_marked_where_there_is_no_room_for_the_load() -> None:
    run = fakes.complete(7)
    assert run.timing is not None
    loaded = replace(run, timing=replace(run.timing, busy_cores=1.9, cores=2))
    lines = {width: verdict_row(Session(runs=(loaded,)), width).text for width in (80, 200)}
    assert "while other programs" not in lines[80]
    assert "≈1.31× faster" in lines[80]
    assert "≈1.31× faster  [1.28, 1.34]  while other programs use 1.9 of 2 cores" in lines[200]
    assert "≈" not in verdict_row(Session(runs=(run,)), 80).text


def test_a_wide_line_has_the_kernels_after_the_fix_and_says_that_the_speedup_is_without_it() -> None:
    text = verdict_row(Session(runs=(fixable(),)), 160).text
    assert "than now  3 kernels → 2" in text
    assert "now vs. eager: 1.31× faster" in text


@pytest.mark.parametrize(
    ("speedup", "gain"),
    [
        (0.997, "as fast as now"),
        (1.004, "as fast as now"),
        (1.04, "1.04× faster than now"),
        (0.93, "1.08× slower than now"),
    ],
)
def test_a_small_gain_of_a_fix_is_rounded_to_the_hundredth(speedup: float, gain: str) -> None:
    run = fixable()
    run = replace(run, fixes=(replace(run.fixes[0], speedup=speedup),))
    assert f"fix ready (h): {gain}" in verdict_row(Session(runs=(run,)), 160).text
    undecided = ev.FixGain(us=3.0, low_us=-8.0, high_us=14.0, call_us=100.0)
    run = replace(run, fixes=(replace(run.fixes[0], gain=undecided),))
    assert "fix ready (h): no clear difference" in verdict_row(Session(runs=(run,)), 160).text


def test_more_kernels_after_the_fix_are_no_gain() -> None:
    run = fixable()
    for kernels, style in (((3, 2), "ok"), ((2, 3), "muted")):
        row = verdict_row(Session(runs=(replace(run, fixes=(replace(run.fixes[0], kernels=kernels),)),)), 160)
        assert next(span.style for span in row.spans if "kernels →" in span.text) == style


@pytest.mark.parametrize(("width", "shown"), [(160, "vs. eager: 1.31× faster"), (38, "1.31× faster")])
def test_a_narrow_line_without_a_fix_has_the_speedup(width: int, shown: str) -> None:
    assert shown in verdict_row(Session(runs=(fakes.complete(7),)), width).text
    undecided = replace(fixable("undecided"), fixes=())
    wanted = "vs. eager: undecided" if width == 160 else "speedup undecided"
    assert wanted in verdict_row(Session(runs=(undecided,)), max(width, 40)).text


def test_results_of_an_older_run_have_no_colored_badge() -> None:
    session = Session(runs=(fakes.complete(7), fakes.failed(8)))
    styles = {span.text.strip(): span.style for span in verdict_row(session, 160).spans}
    assert styles["✖ RuntimeError"] == "badge.break"
    assert styles["✖ 1 graph break"] == "badge.muted"
    alone = {span.text.strip(): span.style for span in verdict_row(Session(runs=(fakes.complete(7),)), 160).spans}
    assert alone["✖ 1 graph break"] == "badge.break"


def test_a_narrow_line_has_the_first_change_since_the_last_run() -> None:
    session = Session(runs=(fakes.complete(6), fakes.one_graph(7)))
    assert verdict_row(session, 80).text.endswith("since run 6: breaks 1→0")
    assert verdict_row(session, 200).text.endswith(
        "since run 6: breaks 1→0  graphs 2→1  kernels 2→1  compiled 1.24× faster"
    )


def test_a_profile_without_a_trace_claims_nothing_of_breaks_graphs_or_source() -> None:
    read = ev.ProfileRead(
        run=1, path="/p.json", steps=(), median="", work_us=10.0, work_on_lines_us=0.0, compiled_us=10.0,
        compiled_on_lines_us=0.0,
    )  # fmt: skip
    run = Snapshot(run=1, file="/p.json", source="", config=ev.Config()).apply(read)
    for name in ("triton_poi_fused_add_0", "triton_poi_fused_mul_1"):
        run = run.apply(ev.Kernel(
            run=1, graph="0/0", phase="forward", name=name, language="triton", source="", ops=(),
        ))  # fmt: skip
    run = run.apply(ev.Finished(run=1))
    session = Session(runs=(run,))
    assert "graph breaks are not in a profile" in verdict_row(session, 160).text
    assert "0 graph" not in verdict_row(session, 160).text
    assert history_row(session, 160).text.strip().startswith("history [1: profile] ")
    breaks, source = text(breaks_document(run)), text(source_document(run))
    assert "not in a profile" in breaks
    assert "No breaks" not in breaks
    assert " triton_poi_fused_mul_1    Triton\n" in text(kernels_document(run, width=48))
    assert "--trace TRACE" in source


def test_a_script_whose_steps_are_timed_does_not_seem_to_compile():
    entry = ev.EntryFound(name="__main__", kind="script", rule="", calls=())
    script = replace(fakes.running(1), entry=entry, phase="dynamo", phase_graph="1/2")
    timed = replace(script, timing=fakes.complete(1).timing)
    shown = [title_row(Session(runs=(run,)), None, Elapsed(60.0, 42.7), 160).text for run in (script, timed)]
    assert ["Dynamo 1/2" in text for text in shown] == [True, False]
    assert "◐ timing steps" in shown[1]


def test_a_script_waits_for_a_study_and_a_model_only_to_be_timed():
    model = fakes.running(1)
    script = replace(model, entry=ev.EntryFound(name="__main__", kind="script", rule="", calls=()), phase="dynamo")

    def title(run: Snapshot) -> str:
        return title_row(Session(runs=(run,)), None, Elapsed(60.0, 42.7), 160, study="sweep 2 of 4").text

    assert "◐ sweep 2 of 4  run 1 waits for it" in title(script)
    assert "Dynamo" not in title(script)
    assert "◐ sweep 2 of 4  timing waits for it" in title(model)
    assert "◐ sweep 2 of 4  run 1  ● live" in title(replace(fakes.complete(1), status="ok"))


def test_timing_waits_while_a_fix_is_verified():
    run = fixable("measuring")
    waits = replace(run, status="running", timing=None, fixes=(replace(run.fixes[0], state="verifying"),))

    def title(run: Snapshot) -> str:
        return title_row(Session(runs=(run,)), None, Elapsed(60.0, 0.7), 160).text

    def timing(run: Snapshot) -> str:
        return text(timing_document(run, width=100))

    assert "◐ verifying a fix  timing waits for it" in title(waits)
    assert "● live" not in title(waits)
    assert "Timing waits: the fix of line " in timing(waits)
    no_timing = (replace(waits, phase="answering"), replace(waits, timing_skipped="it cannot be timed"))
    for other in (replace(waits, fixes=run.fixes), replace(waits, status="ok"), *no_timing):
        assert "● live" in title(other)
        assert "Timing waits" not in timing(other)


@pytest.mark.parametrize("run", [fakes.running(1), fakes.complete(1)])
def test_a_narrow_title_keeps_how_far_a_study_is(run: Snapshot):
    progress = "sweep compiling and timing: 2 of 6, about 3 min left"
    assert f"◐ {progress}" in title_row(Session(runs=(run,)), None, Elapsed(60.0, 42.7), 80, study=progress).text
