"""The content of the other views, as readable text, and properties of their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.fusion_view import fusion_document, fusion_reasons_document
from tcexplore.documents.diff_view import diff_document
from tcexplore.events import BreakFix, CallPart, CallProfiled, FactMissing, Kernel, SchedulerNode
from tcexplore.session.links import closure, line_link
from tests import fakes
from tests.documents import golden
from tests.documents.panes import require_stable_rows
from tests.documents.views import VIEWS, compared, opened, rows, same
from tests.snapshots import training
from tests.snapshots.codes import with_code

EVERY = {**VIEWS, "diff": compared()}


@pytest.mark.parametrize("view", EVERY)
def test_views(view: str):
    run, build = training.run(), EVERY[view]
    closed, whole = build(run, frozenset(), 78), build(run, opened(build, run), 78)
    golden.check(f"view-{view}", golden.text(closed) + "\n== all open\n" + golden.text(whole))


def test_side_by_side():
    golden.check("view-diff-150", golden.text(compared()(training.run(), frozenset(), 150)))


def test_diff_reports_the_same_program():
    document = diff_document(training.run(), same(), frozenset(), 78)
    assert "SAME PROGRAM" in document.row(0).text
    golden.check("view-diff-same", golden.text(document))


@pytest.mark.parametrize("view", EVERY)
@pytest.mark.parametrize("run", [fakes.complete, fakes.running, fakes.failed, fakes.nothing_compiled, training.run])
def test_rows_are_single_stable_lines_in_known_styles(view: str, run):  # noqa: ANN001
    snapshot, build = run(), EVERY[view]
    document = build(snapshot, opened(build, snapshot, 60), 60)
    require_stable_rows(document)


def test_prose_fits():
    for view in VIEWS:
        for run in (fakes.nothing_compiled(), fakes.running()):
            assert all(len(row.text) < 38 for row in rows(VIEWS[view], run, width=38)), view


def test_a_kernel_that_moves_more_bytes_than_its_unfused_nodes_saves_nothing():
    run = fakes.complete(7)
    kernels = tuple(replace(kernel, bytes_saved=-524288) for kernel in run.code.kernels)
    text = "\n".join(row.text for row in rows(fusion_document, with_code(run, kernels=kernels)))
    assert "moves 512.0 KiB more than unfused" in text
    assert "saves -" not in text


def test_library_calls_alone_leave_nothing_to_fuse():
    """Not that torch does not report sizes; the title counts what runs, as the other views do."""
    run = fakes.complete(7)
    extern = tuple(kernel for kernel in run.code.kernels if not kernel.generated)
    document = fusion_document(with_code(run, kernels=extern))
    text = " ".join(document.row(index).text for index in range(len(document)))
    assert text.startswith(" Only library calls run.")
    assert "does not report" not in text
    assert document.title == f"0 kernels + {len(extern)} extern"


def test_the_reason_of_a_break_gets_a_separate_line_if_the_fix_leaves_no_room():
    reason = "Dynamo cannot trace Python's builtin `print` with these arguments."
    run = fakes.complete(7)
    graph_break = replace(run.breaks[0], reason=reason)
    fix = BreakFix(run=7, location=graph_break.location, kind=graph_break.kind, state="proposed", name="print after it")
    run = replace(run, breaks=(graph_break,), fixes=(fix,))
    texts = [row.text.strip() for row in rows(breaks_document, run, width=62)]
    assert texts[1:4] == [reason[:55], reason[56:], "fix: print after it, not verified yet"]


def test_fusion_reasons_of_any_two_kernels():
    run = training.run()
    first, second, third = run.code.kernels
    texts = [
        golden.text(fusion_reasons_document(run, *pair)) for pair in ((second, third), (third, second), (first, third))
    ]
    golden.check("view-why_not", "\n".join(texts))


def test_fusion_reasons_of_kernels_that_torch_did_not_compare():
    run = with_code(training.run(), fusion=())
    _, second, third = run.code.kernels
    apart = replace(
        training.SCHEDULE, nodes=tuple(replace(n, buffers=(n.name,), dependencies=()) for n in training.SCHEDULE.nodes)
    )
    by_way = replace(apart, nodes=(*apart.nodes[:-1], SchedulerNode(name="op9", dependencies=("op2",)),
                                   SchedulerNode(name="op3", dependencies=("op9",))))  # fmt: skip
    library = Kernel(graph="0/0", phase="backward", name="extern_kernels.mm", language="extern", source="",
                     ops=("aten.mm",), scheduler_nodes=("op9",))  # fmt: skip
    states = (
        run, with_code(run, schedules=(apart,)), with_code(run, schedules=(by_way,)),
        with_code(run, schedules=(by_way,), kernels=(*run.code.kernels, library)), with_code(run, schedules=()),
    )  # fmt: skip
    golden.check(
        "view-never_compared", "\n".join(golden.text(fusion_reasons_document(state, second, third)) for state in states)
    )


def test_line_highlights_its_ops_forward_and_backward():
    run = training.run()
    lit = closure(run, (line_link(training.TIMES),))
    build = VIEWS["aot"]
    own = [row for row in rows(build, run, opened(build, run)) if row.links and row.links[0].kind == "aten"]
    names = {(link.where, link.name) for row in own for link in row.links[:1] if link in lit}
    assert names == {
        ("0/0/forward", "mul"),
        ("0/0/backward", "mul"),
        ("0/0/backward", "mul_3"),
        ("0/0/backward", "sum_1"),
        ("0/0/joint", "detach"),
    }


def test_statements_of_the_backward_link_to_the_line():
    run = training.run()
    statement = next(
        row
        for row in rows(VIEWS["decomposition"], run, opened(VIEWS["decomposition"], run))
        if "tmp1 * tmp3" in row.text
    )
    assert line_link(training.GATE) in closure(run, statement.links)
    assert line_link(training.TIMES) not in closure(run, statement.links)


@pytest.mark.parametrize(("view", "fact"), [("passes", "passes"), ("fusion", "fusion refused"), ("aot", "AOT graphs")])
def test_unavailable_facts_are_reported(view: str, fact: str):
    gone = replace(
        with_code(training.run(), passes=()),
        missing_facts=(FactMissing(fact=fact, symbol="torch:x", reason="no torch:x here"),),
    )
    assert "no torch:x here" in golden.text(VIEWS[view](gone, frozenset(), 78))


def test_ops_without_a_kernel_are_no_eager_ops_of_the_breaks_pane():
    """On a GPU, torch's own code around a graph calls `aten.detach` once for each parameter."""

    def text(us: float) -> str:
        parts = [CallPart(kind="eager op", name="aten.detach", us=0.0, low_us=0.0, high_us=0.0, launches=80)]
        parts.append(CallPart(kind="eager op", name="aten.relu", us=us, low_us=us, high_us=us, launches=2))
        run = fakes.complete()
        run = replace(run, breaks=()).apply(
            CallProfiled(run=run.run, total_us=100.0, repeats=4, parts=tuple(parts), region_entries=1)
        )
        document = breaks_document(run)
        return "\n".join(document.row(index).text for index in range(len(document)))

    assert "2 ops," in text(3.0)
    assert "aten.relu" in text(3.0)
    assert "detach" not in text(3.0)
    assert "eager ops" not in text(0.0)


def test_entries_of_compiled_code_are_those_of_all_profiled_calls():
    """A timed unit may have several calls, and its profile the entries of all."""
    run = fakes.complete()
    assert run.timing is not None
    two_calls = run.apply(replace(run.timing, calls=2))
    texts = [golden.text(breaks_document(each)) for each in (run, two_calls)]
    assert "each call also enters compiled code 2 times" in texts[0]
    assert "2 calls also enter compiled code 2 times" in texts[1]


def test_the_graph_break_between_the_kernels_of_two_graphs_is_named():
    run = fakes.complete()
    line = run.breaks[0].location.line if run.breaks[0].location else 0
    text = golden.text(fusion_document(run, frozenset(), 120))
    assert f"╳ not fused with the kernels of 1/0: the graph break at line {line} is between them" in text
