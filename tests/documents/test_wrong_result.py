"""A wrong result is shown wherever a speedup would be."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.documents.strip import history_row, run_verdict, verdict_row
from tcexplore.documents.timing.accuracy_rows import format_errors
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.session import Session, summarize
from tests import fakes

RIGHT = fakes.complete(1)
WRONG = RIGHT.apply(ev.Accuracy(run=1, verdict="wrong"))


def test_wrong_result_precedes_or_replaces_the_speedup() -> None:
    session = Session(runs=(WRONG,))
    speed = f"{summarize(WRONG).speedup:.2f}×"
    line = verdict_row(session).text
    assert line.index("WRONG RESULT") < line.index(speed)
    strip = history_row(session, 160).text
    assert "wrong" in strip
    assert speed not in strip
    assert "WRONG RESULT" in timing_document(WRONG).row(0).text
    assert "WRONG RESULT" in run_verdict(WRONG).text


def test_correct_result_is_not_called_wrong() -> None:
    assert "WRONG" not in verdict_row(Session(runs=(RIGHT,))).text
    assert "WRONG" not in timing_document(RIGHT).row(0).text


def test_a_larger_error_that_is_as_accurate_names_what_is_allowed() -> None:
    def errors(compiled: float) -> str:
        accurate = ev.Accuracy(
            verdict="as accurate as eager", eager_vs_fp64=1e-7, compiled_vs_fp64=compiled, allowed_error=2.3e-6
        )
        return format_errors(accurate)

    assert errors(5.5e-7).endswith("compiled 5.5e-07 (rounding in another order explains up to 2.3e-06)")
    assert errors(0.5e-7).endswith("compiled 5e-08")
