"""The report of `check`: the verdict first and last, no wider than the screen, no markup in the user's text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.guards.recompile_check_view import format_inputs
from tcexplore.events.rank_events import Divergence, DivergenceSide, RanksCompared
from tcexplore.report.check_report import summary_report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.check_text import check_text as text
from tests.snapshots import recompiling

RUNS = [fakes.complete, fakes.recompiled, fakes.failed, fakes.nothing_compiled, fakes.facts_missing, fakes.running]


@pytest.mark.parametrize("width", [80, 60, 120])
@pytest.mark.parametrize("run", RUNS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(run: Callable[[], Snapshot], width: int):
    for line in text(run(), width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_cut_off_on_a_narrow_screen(width: int):
    report = "".join(text(fakes.complete(), width).split())
    for guard in fakes.complete().guards[0].guards:
        if not guard.structural:
            assert all(word in report for word in guard.summary.split()), "the line may stand before the device"


def test_the_summary_names_the_cell_of_a_notebook_and_its_line():
    run = fakes.complete()
    (graph_break,) = run.breaks
    assert graph_break.location is not None
    file, line = "/models/demo.ipynb", graph_break.location.line
    source = "\n" * (line - 3) + "# %% cell 3\nx = 1\nprint(x)\n"
    moved = replace(graph_break, location=replace(graph_break.location, file=file))
    run = replace(run, file=file, source=source, breaks=(moved,))
    report = summary_report(run, None, (), None, 120)
    lines = [report.row(number).text for number in range(len(report))]
    assert any(f"line {line} (line 2 of cell 3)" in text for text in lines)


def test_the_summary_has_the_cause_of_each_group_of_ranks_that_differs():
    def difference(rank: int, text: str) -> Divergence:
        sides = DivergenceSide(ranks=(rank,), text=text), DivergenceSide(ranks=(0,), text="relu(x)")
        return Divergence(kind="branch", ranks=(rank,), detail=f"they differ in {text}", sides=sides)

    compared = RanksCompared(rows=(), divergence=difference(1, "sin(x)"), further=(difference(2, "cos(x)"),))
    report = summary_report(replace(fakes.complete(), rank_comparison=compared), None, (), None, 120)
    lines = [report.row(number).text.strip() for number in range(len(report))]
    assert {"They differ in sin(x).", "rank 1: sin(x)", "They differ in cos(x).", "rank 2: cos(x)"} <= set(lines)


def test_recompile_checks_are_answered_in_the_order_of_the_questions():
    run = recompiling.run()
    report = text(run, 120)
    places = [report.index(f" ? {format_inputs(answer.inputs)}") for answer in run.recompile_answers]
    assert len(places) > 1
    assert places == sorted(places)


def test_in_a_pipe_there_is_no_color():
    assert "\x1b" not in text(fakes.complete())


def test_the_verdict_comes_before_its_reasons_and_again_at_the_end():
    order = ["1 graph break", "limit", "Graph breaks", "Graphs", "Guards", "Kernels", "Timing"]
    report = text(fakes.complete(), 120, exceeded=("1 graph break, 0 allowed",))
    places = [report.index(word) for word in order]
    assert places == sorted(places)
    lines = report.splitlines()
    assert lines[-2:] == lines[5:7]
    assert "1 graph break" in lines[-2]


def test_what_aotinductor_compiled_did_not_run_eagerly():
    phase = ev.PhaseTimed(run=1, name="compile_fx_aot", seconds=5.0, graph=None, depth=0)
    report = text(replace(fakes.nothing_compiled(), phase_times=(phase,)))
    assert "NOTHING WAS COMPILED   by torch.compile, but by AOTInductor" in report
    assert "eagerly" not in report


def test_each_state_has_a_verdict():
    assert "✔ 0 graph breaks   1 graph," in text(fakes.one_graph())
    assert "NOTHING WAS COMPILED   the whole program ran eagerly" in text(fakes.nothing_compiled())
    assert "✖ RuntimeError" in text(fakes.failed())
    assert "✔ 0 graph breaks" not in text(fakes.failed())


def test_break_has_its_line_reason_and_hint():
    report = text(fakes.complete(), 120)
    (graph_break,) = fakes.complete().breaks
    assert f"line {graph_break.location.line}" in report
    assert graph_break.code in report
    assert graph_break.registry_id in report
    assert "torch: " in report


def test_text_of_the_user_is_never_markup():
    printed = "[bold]a[i][/b] :smile: [link=x]"
    snapshot = fakes.complete().apply(ev.Output(run=7, stream="stdout", text=printed + "\n"))
    broken = ev.GraphBreak(
        run=7, graph="0/0", registry_id=None, kind="k", reason="[/red] r", code="x[/b]", hints=("[i]h",)
    )
    report = text(snapshot.apply(broken), 120)
    for piece in (printed, "[/red] r", "x[/b]", "[i]h"):
        assert piece in report


def test_much_output_shows_its_end():
    many = "".join(f"step {n}\n" for n in range(500))
    report = text(fakes.nothing_compiled(5).apply(ev.Output(run=5, stream="stdout", text=many)))
    assert "480 earlier lines" in report
    assert "step 499" in report
    assert "step 479" not in report


def test_every_unavailable_fact_is_printed_with_its_reason():
    run = fakes.facts_missing()
    report = text(run, 120)
    assert run.missing_facts
    for missing in run.missing_facts:
        assert f"{missing.fact}: {missing.reason}" in report
