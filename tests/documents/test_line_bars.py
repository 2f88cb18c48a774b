"""The time of each line in the gutter of the source pane, the peek line and the lines view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.peek_line import peek_row
from tcexplore.documents.source_view import source_document
from tcexplore.documents.timing.hot_lines_view import hot_lines_document
from tcexplore.session import Snapshot
from tcexplore.session.call_account import call_account
from tcexplore.session.links import Link, closure
from tests import fakes
from tests.documents import golden
from tests.snapshots.mlp_source import at, line

CALL_US = 400.0


def timed(*, estimated: bool = False) -> Snapshot:
    """Return the complete run with lines of an eager call that take half, an eighth and nothing of it."""
    lines = {"self.fc1(x)": 200.0, "F.gelu": 50.0, "h * 1.2": 0.0}
    event = ev.EagerLinesTimed(
        call_us=CALL_US,
        lines=tuple(ev.EagerLine(location=at(code), phase="forward", us=us) for code, us in lines.items()),
        rest=(("Python and launch", 150.0),),
        estimated=estimated,
    )
    run = fakes.complete()
    assert run.timing is not None
    timing = replace(run.timing, eager_us=CALL_US)
    return replace(run, eager_lines=event, timing=timing, call_profile=None, call_account=None)


def row(run: Snapshot, code: str, width: int = 78) -> str:
    return source_document(run, frozenset(), width).row(line(code) - 1).text


def bar(run: Snapshot, code: str) -> str:
    """Return the bar in the gutter of a line: the cell two before its code."""
    text = row(run, code)
    return text[text.index(fakes.SOURCE.split("\n")[line(code) - 1]) - 2]


@pytest.mark.parametrize("width", [38, 78])
def test_bars_take_the_cell_of_the_memory_traffic(width: int):
    before, after = source_document(fakes.complete(), frozenset(), width), source_document(timed(), frozenset(), width)
    widths = [[len(document.row(n).text) for n in range(len(document))] for document in (before, after)]
    assert widths[0] == widths[1]


def test_bars_show_shares_of_the_call_only_where_they_are_known():
    assert "E1 ▅ " in row(timed(), "self.fc1(x)")
    assert "▐1▌▂ " in row(timed(), "F.gelu")
    assert "▐1▌  " in row(timed(), "h * 1.2"), "a line that takes no time has no bar"
    assert "▐1▌▁ " in row(fakes.complete(), "h * 1.2"), "before the lines are timed, the bar is the memory traffic"


def test_a_wide_pane_and_the_peek_line_say_the_share():
    assert "50% of a call, 200 µs" in row(timed(), "self.fc1(x)", 150)
    assert "≈ 50% of a call, 200 µs" in row(timed(estimated=True), "self.fc1(x)", 150)
    link = Link("line", fakes.FILE, str(line("self.fc1(x)")))
    assert "50% of a call, 200 µs" in peek_row(timed(), (link,), closure(timed(), (link,)), 120).text


def test_the_lines_view_shows_lines_rest_and_the_call():
    golden.check("view-hot_lines", golden.text(hot_lines_document(timed(estimated=True))))


def test_the_lines_view_begins_with_the_call_and_what_is_on_no_line():
    """A line may take longer compiled although the call is faster: the eager call has more time on no line."""
    own = (
        ev.CallPart(kind="eager op", name="mm", us=260.0, low_us=260.0, high_us=260.0, location=at("self.fc1(x)")),
        ev.CallPart(kind="guards", name="", us=30.0, low_us=30.0, high_us=30.0),
        ev.CallPart(kind="launch", name="", us=10.0, low_us=10.0, high_us=10.0),
    )
    profile = ev.CallProfiled(total_us=300.0, repeats=5, parts=own)
    run = replace(timed(), call_account=call_account(profile, None))
    document = hot_lines_document(run)
    call, rest, first = ([part.strip() for part in document.row(n).text.split("  ") if part] for n in (3, 4, 5))
    assert call == ["100%", "400 µs", "300 µs", "the call"]
    assert rest == ["13%", "150 µs", "40.0 µs", "on no line"]
    assert first[:3] == ["87%", "200 µs", "260 µs"]


def test_the_lines_view_names_the_most_expensive_line_of_each_side():
    profile = ev.CallProfiled(total_us=CALL_US / 2, repeats=5, parts=())
    run = replace(timed(), call_account=call_account(profile, None))
    first = hot_lines_document(run).row(1).text
    assert first.startswith(f" Most time: eager line {line('self.fc1(x)')} (200 µs), compiled line ")


def test_a_line_with_a_break_says_that_its_gap_is_elsewhere():
    run = timed()
    (known,) = run.breaks
    assert known.location is not None
    broken = replace(run, breaks=(replace(known, location=replace(known.location, line=line("h * 1.2"))),))
    compiled = replace(broken, call_account=call_account(ev.CallProfiled(total_us=200.0, repeats=5, parts=()), None))

    def marked(of: Snapshot) -> list[str]:
        document = hot_lines_document(of)
        rows = (document.row(number).text for number in range(len(document)))
        return [text.strip() for text in rows if "Graph break in" in text]

    (text,) = marked(compiled)
    assert text.startswith(f"Graph break in line {line('h * 1.2')}: its time is without the gap")
    assert marked(broken) == [], "an eager call has no gap"


def test_the_most_expensive_line_counts_with_its_backward():
    """A line whose backward takes longest is not the slowest if another one takes more in both together."""
    run = timed()
    assert run.eager_lines is not None
    backward = ev.EagerLine(location=at("F.gelu"), phase="backward", us=160.0)
    lines = (*run.eager_lines.lines, backward)
    first = hot_lines_document(replace(run, eager_lines=replace(run.eager_lines, lines=lines))).row(1).text
    assert first == f" Most time: eager line {line('F.gelu')} (210 µs), forward and backward (↩) together"


def test_the_lines_of_a_script_are_those_of_a_captured_call():
    call = ev.CallExamined(region=0, call=2, inputs=("i64[8, 128]",), calls=9, compiles=1, backward=True, held=0)
    run = replace(timed(), captured_calls=(replace(call, timing=timed().timing),))
    text = " ".join(row.text.strip() for row in map(hot_lines_document(run, frozenset(), 120).row, range(4)))
    assert (
        "These are times of call 2 of region 0 in the script, forward and backward with i64[8, 128]. A step has also"
        in text
    )


CALL = ev.CallExamined(region=0, call=2, inputs=("i64[8]",), calls=9, compiles=1, backward=True, held=0)


def script_with_lines(*, captured: bool, examined: tuple[ev.CallExamined, ...] = ()) -> Snapshot:
    """Return a script with the lines of its eager step, of which a captured call has all but `class MLP`.

    `examined` are the events of calls before that with the lines.
    """
    call_lines = timed().eager_lines
    assert call_lines is not None
    outside = ev.EagerLine(location=at("class MLP"), phase="forward", us=300.0)
    step = replace(call_lines, call_us=1000.0, lines=(*call_lines.lines, outside))
    script = ev.EntryFound(name="__main__", kind="script", rule="", calls=())
    run = replace(timed(), entry=script, eager_lines=None)
    events: list[ev.Event] = [step, *examined]
    if captured:
        events.append(replace(CALL, timing=timed().timing, eager_lines=call_lines))
    return run.apply_all(replace(event, run=run.run) for event in events)


def test_lines_outside_a_captured_call_keep_their_time_in_the_step():
    """Once a call is examined, the lines of the training loop have their share of a step, those of the call of it."""
    before, after = (script_with_lines(captured=captured) for captured in (False, True))
    # The step is scaled to the 400 us of its timing.
    assert "30% of an eager step, 120 µs" in row(before, "class MLP", 150)
    assert "20% of an eager step, 80.0 µs" in row(before, "self.fc1(x)", 150)
    assert "30% of an eager step, 120 µs" in row(after, "class MLP", 150)
    assert "50% of a call, 200 µs" in row(after, "self.fc1(x)", 150)


def test_bars_beside_those_of_a_call_are_no_shares_of_a_step():
    """A bar of 30% of a step beside one of 50% of a call would be read as three fifths of it."""
    before, after = (script_with_lines(captured=captured) for captured in (False, True))
    assert bar(before, "class MLP") == "▃"
    assert bar(before, "self.fc1(x)") == "▂"
    assert bar(after, "class MLP") == " "
    assert bar(after, "self.fc1(x)") == "▅"
    link = Link("line", fakes.FILE, str(line("class MLP")))
    texts = [peek_row(run, (link,), closure(run, (link,)), 120).text for run in (before, after)]
    words = "≈ 30% of an eager step, 120 µs"
    assert [text.strip() for text in texts] == [f"line 11 → ▃ {words}", f"line 11 → {words}"]


def timing_of_a_call() -> ev.TimingEstimate:
    """Return a timing of a call that differs from that of the steps."""
    timing = timed().timing
    assert timing is not None
    return replace(timing, eager_us=CALL_US / 4, busy_cores=1.3, cores=2)


@pytest.mark.parametrize("timing", [None, timing_of_a_call()], ids=["compared", "timed without its lines"])
def test_lines_keep_their_time_in_the_step_until_those_of_the_first_call_are_measured(timing: ev.TimingEstimate | None):
    """The calls of a script are compared first, then measured. A study measures no lines of them."""
    first, second = replace(CALL, timing=timing), replace(CALL, call=3, eager_lines=timed().eager_lines)
    waiting = script_with_lines(captured=False, examined=(first, second))
    assert "30% of an eager step, 120 µs" in row(waiting, "class MLP", 150)
    assert "20% of an eager step, 80.0 µs" in row(waiting, "self.fc1(x)", 150)
    document = hot_lines_document(waiting, frozenset(), 120)
    text = "\n".join(document.row(n).text for n in range(len(document)))
    assert text.startswith(" Lines of one step")
    for of_the_call in ("These are times of call", "Other lines of a step", "waiting for a core"):
        assert of_the_call not in text
    measured = script_with_lines(captured=True, examined=(first, second))
    assert "50% of a call, 200 µs" in row(measured, "self.fc1(x)", 150)
    assert "30% of an eager step, 120 µs" in row(measured, "class MLP", 150)


def test_the_times_of_modules_are_of_a_call_once_one_is_captured():
    """Those of a step are not taken for those of a call that is not measured yet."""
    lines = timed().eager_lines
    waiting = script_with_lines(captured=False, examined=(CALL, replace(CALL, region=1, eager_lines=lines)))
    assert lines is not None
    assert timed_tree(waiting).root.eager_us == lines.call_us


def test_the_lines_view_has_the_lines_of_a_step_outside_the_captured_call():
    texts = []
    for captured in (False, True):
        document = hot_lines_document(script_with_lines(captured=captured), frozenset(), 120)
        texts.append([document.row(n).text for n in range(len(document))])
    before, after = texts
    assert before[0].startswith(" Lines of one step")
    assert not any("Other lines of a step" in text for text in before)
    start = next(n for n, text in enumerate(after) if "Other lines of a step" in text)
    assert after[0].startswith(" Lines of one call")
    whole = next(n for n, text in enumerate(after[start:]) if text.endswith("the step"))
    assert [number for number, text in enumerate(after[start:]) if "class MLP" in text or "fc1" in text] == [whole + 1]


def test_the_other_lines_of_a_step_name_what_the_optimizer_takes_with_its_python():
    run = script_with_lines(captured=True)
    steps = ev.StepsTimed(
        border="optimizer", step="SGD", steps=90, warm_up=4, eager=40, timed=40,
        rest=(ev.StepPart(name="optimizer", us=5570.0, share=0.2),),
    )  # fmt: skip
    texts = [
        " ".join(document.row(n).text.strip() for n in range(len(document)))
        for document in (hot_lines_document(each, frozenset(), 120) for each in (run, replace(run, steps=steps)))
    ]
    assert all("is on no line." in text for text in texts)
    assert ["the optimizer takes 5.57 ms of a compiled step" in text for text in texts] == [False, True]


def test_lines_timed_beside_other_programs_say_that_they_wait():
    run = timed()
    assert run.timing is not None
    busy = replace(run, timing=replace(run.timing, busy_cores=1.3, cores=2))
    texts = [hot_lines_document(each, frozenset(), 120).row(2).text for each in (run, busy)]
    assert "while other programs use 1.3 of 2 cores: the time of a line includes waiting for a core" in texts[1]
    assert "waiting" not in texts[0]
