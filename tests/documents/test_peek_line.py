"""The line that says what the selected row is linked to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.line_facts import break_place
from tcexplore.documents.peek_line import peek_row
from tcexplore.documents.source_view import source_document
from tcexplore.session.links import Link, break_link, closure, guard_link, kernel_link
from tests import fakes


def peek(link: Link, run: int = 7, width: int = 120) -> str:
    snapshot = fakes.complete(run)
    return peek_row(snapshot, (link,), closure(snapshot, (link,)), width).text.strip()


def test_a_line_names_its_kernel_ops_and_guards():
    assert peek(Link("line", fakes.FILE, "23")).startswith("line 23 → kernel ▐1▌ · 2 ops · ")


def test_a_line_names_the_key_to_its_guards():
    guard = next(guard for guard in fakes.complete(7).guards[0].guards if guard.location)
    assert guard.location is not None
    assert "(i)" in peek(Link("line", guard.location.file, str(guard.location.line)))


def test_structural_guards_are_counted_apart_as_the_gutter_has_no_mark_for_them():
    run = fakes.complete(7)
    at = next(guard.location for guard in run.guards[0].guards if guard.location and not guard.structural)
    link = Link("line", at.file, str(at.line))

    def shown(structural: int, *, equal: bool = False) -> tuple[str, str]:
        """Return the line below the panes and the gutter, with so many of the guards of the line as structural ones."""
        own = [guard for guard in run.guards[0].guards if guard.location == at][:2]
        own = own[:1] * 2 if equal else own
        guards = tuple(replace(guard, structural=index < structural) for index, guard in enumerate(own))
        changed = replace(run, guards=(replace(run.guards[0], guards=guards),))
        text = peek_row(changed, (link,), closure(changed, (link,)), 120).text
        return text.partition(" (i)")[0].rpartition("· ")[2], source_document(changed).row(at.line - 1).text[:1]

    assert shown(0) == ("◆ 2 guards", "◆")
    assert shown(1) == ("◆ 1 guard and 1 structural one", "◆")
    assert shown(2) == ("2 structural guards", " ")
    assert shown(2, equal=True) == ("2 structural guards", " "), "each counts, as in the pane"


def test_a_guard_whose_row_has_only_the_end_of_a_name_has_the_whole_name():
    name = f"self.model.layers.0.{'inner.' * 4}self_attn.config.attention_dropout"
    source = "L['self']._modules['model']._modules['layers']._modules['0']." + "_modules['inner']." * 4
    guard = ev.Guard(kind="EQUALS_MATCH", source=source, code=("x == 0.0",), summary="== 0.0", name=name)
    run = replace(fakes.complete(7), guards=(replace(fakes.complete(7).guards[0], guards=(guard,)),))
    link = guard_link(run.guards[0].graph, guard)
    rows = guards_document(run, frozenset(), 60)
    (row,) = (row for row in map(rows.row, range(len(rows))) if link in row.links)
    assert name not in row.text
    assert "…" in row.text
    assert f"EQUALS_MATCH {name}" in peek_row(run, row.links, closure(run, row.links), 120).text


def test_a_kernel_names_its_lines():
    kernel = next(kernel for kernel in fakes.complete(7).code.kernels if kernel.language != "extern")
    assert peek(kernel_link(kernel)).startswith("kernel 1 → line 23, line 24, line 25 · 4 ops")


def test_an_old_run_is_named():
    snapshot = fakes.complete(6)
    link = Link("line", fakes.FILE, "23")
    text = peek_row(snapshot, (link,), closure(snapshot, (link,)), 80, old=True).text
    assert text.startswith(" old, run 6: line 23 → kernel ▐1▌")


def test_a_break_of_another_run_is_said_to_be_gone():
    gone = Link("break", fakes.FILE, "2000")
    assert peek(gone).startswith("graph break that this run does not have")


def test_a_narrow_line_keeps_the_break():
    graph_break = fakes.complete(6).breaks[0]
    assert graph_break.location is not None
    text = peek(Link("line", fakes.FILE, str(graph_break.location.line)), run=6, width=50)
    assert "✖" in text
    assert len(text) <= 50


def test_the_line_of_a_break_has_the_cost_of_the_break():
    snapshot = fakes.complete(6)
    graph_break = snapshot.breaks[0]
    assert graph_break.location is not None
    gain = ev.FixGain(us=40.0, low_us=35.0, high_us=45.0, call_us=100.0)
    fix = ev.BreakFix(
        run=6, location=graph_break.location, kind=graph_break.kind, state="verified", gain=gain, inputs=4
    )
    snapshot = snapshot.apply(fix)
    link = Link("line", fakes.FILE, str(graph_break.location.line))
    text = peek_row(snapshot, (link,), closure(snapshot, (link,)), 160).text
    assert "costs 40.0 µs 40%" in text
    row = peek_row(snapshot, (break_link(graph_break),), closure(snapshot, (break_link(graph_break),)), 160).text
    assert "costs" not in row, "the row of the break says it itself"


def test_a_line_without_facts_has_only_its_name():
    assert peek(Link("line", fakes.FILE, "1")) == "line 1"


@pytest.mark.parametrize(
    ("context", "line", "place"),
    [
        ("method: item", "    y = f(x).sum() * mix.item() + 1", ".item()"),
        ("builtin print", '    print("x", y)', 'print("x", y)'),
        ("nothing that the line has", "    if x.sum() > 0:", "if x.sum() > 0:"),
        ("nothing that the line has", "    if x.sum() > 0:  # a long remark", "if x.sum() > 0:"),
        ("nothing that the line has", "    if x == ' # y':", "if x == ' # y':"),
    ],
)
def test_the_place_of_a_break_is_the_call_in_its_context(context: str, line: str, place: str):
    start, end = break_place(ev.GraphBreak(graph="0/0", registry_id=None, kind="", reason="", context=context), line)
    assert line[start:end] == place
