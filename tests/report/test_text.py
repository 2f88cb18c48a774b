"""The report to read: 80 columns, the verdict first, nothing of the user's taken for markup."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.report.text import print_report
from tcexplore.session import Snapshot
from tests import fakes

MACHINE = ev.Standby(torch="2.13.0+cpu", python="3.11.7", device="cpu", seconds=4.2)

RUNS = [fakes.complete, fakes.recompiled, fakes.failed, fakes.nothing_compiled, fakes.facts_missing, fakes.running]


def text(snapshot: Snapshot, width: int | None = None, exceeded: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    print_report(snapshot, MACHINE, exceeded, stream=stream, width=width)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 60, 120])
@pytest.mark.parametrize("run", RUNS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(run: object, width: int):
    for line in text(run(), width).splitlines():  # type: ignore[operator]
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_cut_off_on_a_narrow_screen(width: int):
    said = "".join(text(fakes.complete(), width).split())
    for guard in fakes.complete().guards[0].guards:
        if not guard.structural:
            assert "".join(guard.summary.split()) in said


def test_in_a_pipe_there_is_no_color():
    assert "\x1b" not in text(fakes.complete())


def test_the_verdict_comes_before_its_reasons():
    said = text(fakes.complete(), 120)
    order = ["1 graph break", "limit", "Graph breaks", "Graphs", "Guards", "Kernels", "Timing"]
    said = text(fakes.complete(), 120, exceeded=("1 graph break, 0 allowed",))
    places = [said.index(word) for word in order]
    assert places == sorted(places)


def test_each_state_is_said_in_words():
    assert "✔ 0 graph breaks · 1 graph," in text(fakes.one_graph())
    assert "NOTHING WAS COMPILED" in text(fakes.nothing_compiled())
    assert "failed: RuntimeError" in text(fakes.failed())
    assert "✔ 0 graph breaks" not in text(fakes.failed())


def test_a_break_has_its_line_its_reason_and_what_to_try():
    said = text(fakes.complete(), 120)
    (found,) = fakes.complete().breaks
    assert f"line {found.location.line}" in said
    assert found.code in said
    assert found.id in said
    assert "try: " in said


def test_the_persons_text_is_never_markup():
    printed = "[bold]a[i][/b] :smile: [link=x]"
    snapshot = fakes.complete().apply(ev.Output(run=7, stream="stdout", text=printed + "\n"))
    broken = ev.GraphBreak(run=7, graph="0/0", id=None, kind="k", reason="[/red] r", code="x[/b]", hints=("[i]h",))
    said = text(snapshot.apply(broken), 120)
    for piece in (printed, "[/red] r", "x[/b]", "[i]h"):
        assert piece in said


def test_much_output_shows_its_end():
    many = "".join(f"step {n}\n" for n in range(500))
    said = text(fakes.nothing_compiled(5).apply(ev.Output(run=5, stream="stdout", text=many)))
    assert "480 lines before these" in said
    assert "step 499" in said
    assert "step 479" not in said
