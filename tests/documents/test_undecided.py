"""No figure is shown before it is significant."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.diff_view import diff_document
from tcexplore.documents.document import Document, Row
from tcexplore.documents.strip import history_row, run_verdict, verdict_row
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.session import Session, Snapshot
from tests import fakes


def run(verdict: TimingVerdict) -> Snapshot:
    made = fakes.running(1)
    estimate = fakes.complete(1).timing
    assert estimate is not None
    absurd = replace(estimate, verdict=verdict, speedup=0.03, low=0.01, high=4.5, pairs=3)
    return replace(fakes.complete(1), status=made.status, timing=absurd)


def all_rows(document: Document) -> list[Row]:
    return [document.row(index) for index in range(len(document))]


def test_the_timing_pane_shows_the_speedup_of_an_undecided_verdict_with_its_interval() -> None:
    assert "UNDECIDED  0.03×  [0.01, 4.50] 95% interval" in timing_document(run("undecided")).row(0).text
    assert "0.03" not in timing_document(run("measuring")).row(0).text


def test_an_undecided_interval_on_one_side_of_1_is_within_the_noise() -> None:
    def meaning(low: float) -> str:
        snapshot = run("undecided")
        assert snapshot.timing is not None
        timing = replace(snapshot.timing, speedup=1.11, low=low, high=1.42, noise_floor=0.277)
        return " ".join(
            row.text.strip() for row in all_rows(timing_document(replace(snapshot, timing=timing), width=160))
        )

    assert "eager against itself varies by up to 28%: the difference may be noise" in meaning(1.04)
    assert "the interval has room for faster and slower" in meaning(0.9)


def test_a_ratio_that_is_not_that_of_the_medians_says_why() -> None:
    assert any("The medians below give" in row.text for row in all_rows(timing_document(run("undecided"))))
    assert not any("The medians below give" in row.text for row in all_rows(timing_document(fakes.complete(1))))


def test_the_diff_has_the_speed_of_both_runs() -> None:
    text = "\n".join(row.text for row in all_rows(diff_document(run("undecided"), run("measuring"), width=120)))
    assert "0.03× [0.01, 4.50] undecided" in text
    assert re.search(r"eager, .* compiled, medians that give \d+\.\d\d×: times varied", text)
    assert "too few pairs for a verdict" in text


def test_the_diff_has_the_time_of_a_call_in_one_run_over_the_other():
    def text(us: float, **other: object) -> str:
        before, after = run("faster"), run("faster")
        assert before.timing is not None
        timing = replace(before.timing, eager_us=2000.0, compiled_us=1000.0, speedup=2.0, low=1.9, high=2.1)
        before = replace(before, timing=timing)
        after = replace(after, timing=replace(timing, compiled_us=us, **other))  # type: ignore[arg-type]
        return "\n".join(row.text for row in all_rows(diff_document(before, after, width=140)))

    assert "compiled call 1.00 ms → 500 µs: faster, 2.00× [1.81, 2.21]" in text(500.0)
    assert "eager 2.00 ms → 2.00 ms" in text(500.0)
    assert "Eager got" not in text(500.0)
    assert "no clear difference, 0.83× [0.75, 1.11]" in text(1200.0, eager_us=2400.0), "a slower machine"
    slower = text(1200.0, eager_us=2400.0)
    assert "Eager got slower too, by your edit or by the machine." in slower
    assert "Relative to eager: no clear difference, 1.00× [0.90, 1.11]." in slower
    assert "Eager got faster too" in text(250.0, eager_us=500.0)
    assert "faster, 4.00× [3.62, 4.42]" in text(250.0, eager_us=500.0), "a smaller model"
    assert "slower, 0.50×" in text(2000.0)
    assert "no clear difference, 1.05× [0.95, 1.16]" in text(950.0)
    assert "compiled step" not in text(500.0, unit="step"), "a step is not compared with a call"


def test_the_diff_has_what_compiling_took_and_when_it_pays_off():
    def compiled(seconds: float, cached: int) -> Snapshot:
        made = run("faster")
        assert made.timing is not None
        timing = replace(made.timing, eager_us=2000.0, compiled_us=1000.0, speedup=2.0, low=1.9, high=2.1)
        kernels = [
            ev.Kernel(run=1, graph="0/0", phase="forward", name=f"k{n}", language="cpp", source=f"{n}") for n in (1, 2)
        ]
        compiles = [
            ev.PhaseTimed(run=1, name="compile_file", seconds=0.1, graph="0/0", depth=1, at=0.0)
            for _ in range(2 - cached)
        ]
        whole = ev.PhaseTimed(run=1, name="dynamo", seconds=seconds, graph="0/0", depth=0)
        called = ev.CallMade(run=1, index=0, variant="compiled", seconds=seconds + 0.001, compiles=1)
        return replace(made, timing=timing, codes=(), phase_times=(), calls=()).apply_all(
            [*kernels, *compiles, whole, called]
        )

    def text(before: Snapshot, after: Snapshot) -> str:
        return "\n".join(row.text for row in all_rows(diff_document(before, after, width=140)))

    assert "compiling 8.00 s → 4.00 s  break-even ~8,000 → ~4,000 calls\n" in text(compiled(8.0, 0), compiled(4.0, 0))
    assert "C++ kernels from the cache: 0 of 2 → 1 of 2" in text(compiled(8.0, 0), compiled(4.0, 1))
    assert "compiling" not in text(replace(run("faster"), phase_times=()), compiled(4.0, 0)), "not known of both"


def test_the_diff_of_scripts_has_the_time_of_a_captured_call():
    def script(us: float, inputs: tuple[str, ...] = ("f32[8]",)) -> Snapshot:
        made = run("faster")
        assert made.timing is not None
        timing = replace(made.timing, eager_us=2000.0, compiled_us=us, speedup=2000 / us, low=1900 / us, high=2100 / us)
        call = ev.CallExamined(
            region=0, call=2, inputs=inputs, calls=9, compiles=1, backward=True, held=0, timing=timing
        )
        return replace(made, captured_calls=(call,))

    def text(before: Snapshot, after: Snapshot) -> str:
        return "\n".join(row.text for row in all_rows(diff_document(before, after, width=140)))

    assert "captured call, compiled 1.00 ms → 500 µs: faster, 2.00×" in text(script(1000.0), script(500.0))
    assert "captured call" not in text(script(1000.0), script(500.0, ("f32[9]",)))


def test_the_diff_says_that_its_runs_were_timed_at_different_load() -> None:
    def text(busy: float) -> str:
        quiet, other = run("faster"), run("faster")
        assert other.timing is not None
        other = replace(other, timing=replace(other.timing, busy_cores=busy, cores=2))
        return "\n".join(row.text for row in all_rows(diff_document(quiet, other, width=140)))

    assert "while other programs use 1.9 of 2 cores" in text(1.9)
    assert "Timed at different load: the speedups may differ for that alone." in text(1.9)
    assert "load" not in text(0.1)


@pytest.mark.parametrize("verdict", ["measuring", "undecided"])
def test_summaries_show_no_speedup_before_it_is_known(verdict: TimingVerdict) -> None:
    snapshot = run(verdict)
    session = Session(runs=(snapshot,))
    shown = [verdict_row(session).text, history_row(session, 160).text, run_verdict(snapshot).text]
    assert not [text for text in shown if "0.03" in text]


def test_undecided_verdict_shows_its_interval() -> None:
    snapshot = run("undecided")
    assert "vs. eager: undecided  [0.01, 4.50]" in verdict_row(Session(runs=(snapshot,))).text
    assert "within the noise" not in verdict_row(Session(runs=(snapshot,))).text
    assert snapshot.timing is not None
    noisy = replace(snapshot, timing=replace(snapshot.timing, speedup=1.08, low=1.06, high=1.11, noise_floor=0.09))
    assert "undecided  [1.06, 1.11]  within the noise of 9%" in verdict_row(Session(runs=(noisy,))).text
    more = replace(snapshot, timing=replace(snapshot.timing, processes_to_come=3))
    assert "undecided  [0.01, 4.50] so far" in verdict_row(Session(runs=(more,))).text
    assert "so far" not in verdict_row(Session(runs=(snapshot,))).text
    assert "speed undecided" in history_row(Session(runs=(snapshot,)), 160).text
    many = tuple(replace(snapshot, run=number) for number in range(1, 9))
    assert "8 ✖1 2k ?×]" in history_row(Session(runs=many), 80).text


def test_the_fold_of_notes_says_if_it_has_more_than_it_names():
    def label(*notes: str) -> str:
        snapshot = run("faster")
        assert snapshot.timing is not None
        document = timing_document(replace(snapshot, timing=replace(snapshot.timing, notes=notes)), width=160)
        return next(row.text for row in all_rows(document) if "on the measurement" in row.text)

    assert label("Noise: eager varies", "Warm-up had not stabilized").endswith(": noise, …")
    assert label("Noise: eager varies").endswith(": noise")
