"""Comparison with a baseline report: only what got worse by more than noise fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcexplore.cli.baseline import BaselineComparison, baseline_figures, compare, confirm, read_baseline
from tcexplore.cli.file_argument import BadFileError
from tcexplore.events import Config
from tcexplore.report.json_report import SCHEMA, report
from tests import fakes

Report = dict[str, Any]


def baseline() -> Report:
    return json.loads(json.dumps(report(fakes.complete(), None)))  # type: ignore[no-any-return]


def compared(before: Report, after: Report) -> BaselineComparison:
    return compare(baseline_figures(before), baseline_figures(after))


def changed(change: Callable[[Report], Any]) -> list[str]:
    """Return what got worse since the baseline after a change of its report."""
    after = copy.deepcopy(baseline())
    change(after)
    return list(compared(baseline(), after).worse)


def spans(after: Report) -> list[Report]:
    pending, every = list(after["compile_time"]["spans"]), []
    while pending:
        every.append(span := pending.pop())
        pending += span["children"]
    return every


def compile_longer(after: Report, times: float) -> Any:
    after["compile_time"]["seconds"] *= times
    for span in spans(after):
        span["self_s"] *= times


def faster(after: Report, times: float) -> None:
    timing = after["timing"]
    timing["speedup"] *= times
    timing["ci95"] = [end * times for end in timing["ci95"]]
    timing["samples"]["compiled_us"] = [us / times for us in timing["samples"]["compiled_us"]]


def loaded(after: Report, times: float) -> None:
    """Make all blocks but the fastest slower."""
    fastest = min(after["timing"]["samples"]["compiled_us"])
    faster(after, times)
    after["timing"]["samples"]["compiled_us"].append(fastest)


def test_the_same_report_is_no_worse():
    assert changed(lambda _: None) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r["breaks"].append({**r["breaks"][0], "user_code": "y"}), "2 graph breaks, 1 in the baseline; new:"),
        (lambda r: r["breaks"][0].update(count=3), "3 reported graph breaks, 2 in the baseline; new:"),
        (lambda r: r["graphs"].append(r["graphs"][0]), "3 graphs, 2 in the baseline"),
        (lambda r: r["recompiles"].append({"graph": "0/1", "limit_hit": False}), "1 recompile, 0 in the baseline"),
        (lambda r: r["kernels"].append({"target": "native", "language": "cpp"}), "3 kernels, 2 in the baseline"),
        (lambda r: faster(r, 1 / 1.2), "compiled is 1.09×"),
        (lambda r: compile_longer(r, 1.5), "in the baseline, more than the margin of 45%"),
    ],
)  # fmt: skip
def test_each_regression_is_named(change: Callable[[Report], Any], sentence: str):
    (worse,) = changed(change)
    assert sentence in worse


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["breaks"].clear(),
        lambda r: r["graphs"].pop(),
        lambda r: r["kernels"].append({"target": "h100", "language": "triton"}),
        lambda r: faster(r, 1.3),
        lambda r: faster(r, 1 / 1.05),
        lambda r: loaded(r, 1 / 1.3),
        lambda r: r["timing"].update(ci95=[0.5, 2.0], speedup=1.0),
        lambda r: r["timing"].update(ci95=[0.8, 1.2], speedup=1.0, verdict="undecided"),
        lambda r: r["timing"].update(speedup=0.9, ci95=[0.89, 0.91], noise_floor=0.9),
        lambda r: compile_longer(r, 1.3),
        lambda r: compile_longer(r, 1.5) or r["timing"].update(eager_us=r["timing"]["eager_us"] * 1.5),
    ],
)
def test_improvements_noise_and_a_slower_machine_pass(change: Callable[[Report], Any]):
    assert changed(change) == []


@pytest.mark.parametrize(
    ("wall", "cpu", "longer"),
    [(1.6, 1.2, False), (1.5, 1.3, True), (1.1, 1.5, True), (0.6, 1.5, False), (1.5, None, True)],
)
def test_a_busy_machine_lengthens_the_compile_but_not_its_cpu_time(wall: float, cpu: float | None, longer: bool):
    before, after = baseline(), baseline()
    for call in before["calls"]:
        call["cpu_s"] = 2.0
    for call in after["calls"]:
        call["cpu_s"] = None if cpu is None else 2.0 * cpu
    compile_longer(after, wall)
    assert bool(compared(before, after).worse) == longer
    before["startup_cpu_s"], after["startup_cpu_s"] = 3.0, 4.5
    slower = compared(before, after).worse
    assert bool(slower) == (longer and cpu is None), "a slower processor takes longer for its imports too"


@pytest.mark.parametrize(("cpu", "longer"), [(1.5, True), (1.2, False)])
def test_a_baseline_of_a_busy_machine_does_not_hide_a_longer_compile(cpu: float, longer: bool):
    before, after = baseline(), baseline()
    for busy, cpu_s in ((before, 2.0), (after, 2.0 * cpu)):
        compile_longer(busy, 6.0 if busy is before else 4.0)
        for call in busy["calls"]:
            call["cpu_s"] = cpu_s
    assert bool(compared(before, after).worse) == longer


@pytest.mark.parametrize(("imports", "longer"), [(1.0, True), (1.4, False), (1 / 1.4, True)])
def test_slower_imports_explain_a_part_of_a_longer_compile(imports: float, longer: bool):
    before, after = baseline(), baseline()
    before["startup_cpu_s"], after["startup_cpu_s"] = 2.0, 2.0 * imports
    for call in before["calls"]:
        call["cpu_s"] = 2.0
    for call in after["calls"]:
        call["cpu_s"] = 2.0 * (1.4 if imports >= 1 else 1.1)
    compile_longer(after, 1.4)
    assert bool(compared(before, after).worse) == longer


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda r: r.update(timing=None), "the speed is not compared: this run is not timed"),
        (lambda r: r["timing"].update(threads=64), "the speed is not compared: the baseline is of"),
        (lambda r: r["timing"].update(verdict="measuring"), "without a verdict"),
        (
            lambda r: r["timing"].update(ci95=[0.5, 2.0], speedup=1.0),
            "only a slowdown of more than 2.0× would be detected",
        ),
        (lambda r: r["timing"].update(ci95=[0.0, 2.0], speedup=1.0), "the timing of this run is noisy"),
        (lambda r: r["cache_lookups"].append({"outcome": "hit"}), "one run took more from a cache than the other"),
        (lambda r: r["compile_time"]["file_compiles_s"].append(1.0), "one run took more from a cache than the other"),
        (lambda r: r["compile_time"].update(spans=[]), "the compile time is not compared: this run has none"),
    ],
)
def test_what_cannot_be_compared_is_noted(change: Callable[[Report], Any], note: str):
    after = baseline()
    change(after)
    comparison = compared(baseline(), after)
    assert comparison.worse == ()
    assert any(note in text for text in comparison.notes), comparison.notes


@pytest.mark.parametrize(("change", "slower"), [(faster, True), (loaded, False)])
def test_with_many_pairs_the_fastest_blocks_decide(change: Callable[[Report, float], None], slower: bool):
    before, after = baseline(), baseline()
    change(after, 1 / 1.3)
    for each in (before, after):
        low, high = each["timing"]["ci95"]
        each["timing"].update(ci95=[low / 2, high * 2], pairs=100)
    assert bool(compared(before, after).worse) == slower
    after["timing"]["pairs"] = 99
    assert not compared(before, after).worse


def compiled_for(cpu_s: float) -> BaselineComparison:
    """Return the comparison of a compile with this CPU time with one of 2 s."""
    before, after = baseline(), baseline()
    for changed_report, seconds in ((before, 2.0), (after, cpu_s)):
        for call in changed_report["calls"]:
            call["cpu_s"] = seconds
    compile_longer(after, 1.5)
    return compared(before, after)


def test_a_second_measurement_confirms_a_worse_time():
    first, second = compiled_for(3.0), compiled_for(2.8)
    assert first.slower
    (sentence,) = confirm(first, second).worse
    assert sentence.startswith(first.worse[0])
    assert "; measured again: " in sentence
    assert "(2.80 s of CPU time)" in sentence


def test_a_second_measurement_refutes_a_worse_time():
    comparison = confirm(compiled_for(3.0), compiled_for(2.1))
    assert comparison.worse == ()
    (note,) = comparison.notes
    assert note.startswith("not counted as worse: compiling took ")
    assert "(2.10 s of CPU time)" in note


@pytest.mark.parametrize(("cpu_s", "worse"), [(2.6, False), (3.0, True)])
@pytest.mark.parametrize("cached", [False, True])
def test_one_measurement_alone_needs_a_wider_margin(cpu_s: float, worse: bool, cached: bool):
    first, after = compiled_for(cpu_s), baseline()
    after["cache_lookups"].append({"outcome": "hit"})
    assert first.slower
    comparison = confirm(first, compared(baseline(), after) if cached else None)
    assert bool(comparison.worse) == worse
    assert worse or "it could not be measured again" in comparison.notes[0]


def test_a_second_measurement_does_not_refute_more_breaks():
    after = baseline()
    after["breaks"].append({**after["breaks"][0], "user_code": "y"})
    faster(after, 1 / 2)
    assert len(compared(baseline(), after).worse) == 2
    (sentence,) = confirm(compared(baseline(), after), compared(baseline(), baseline())).worse
    assert "graph break" in sentence


@pytest.mark.parametrize(("slowdown", "control", "pairs", "worse"), [
    (1.2, 1.0, 30, True), (1.05, 1.0, 30, False), (1.2, 1.3, 30, False), (1.2, 1.0, 29, False),
])  # fmt: skip
def test_the_fastest_calls_decide_if_calls_are_timed_one_by_one(
    slowdown: float, control: float, pairs: int, worse: bool
):
    before, after = baseline(), baseline()
    for each in (before, after):
        low, high = each["timing"]["ci95"]
        each["timing"].update(
            ci95=[low / 2, high * 2], pairs=pairs, fastest_eager_us=100.0, fastest_compiled_us=80.0,
            fastest_control_us=100.0,
        )  # fmt: skip
    after["timing"].update(fastest_compiled_us=80.0 * slowdown, fastest_control_us=100.0 * control)
    assert bool(compared(before, after).worse) == worse


def test_the_baseline_is_of_the_current_schema():
    assert baseline()["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(schema=1), "has schema 1, not 3"),
        (lambda r: r.update(error={"type": "E"}), "of a run that failed"),
        (lambda r: r["config"].update(mode="max-autotune"), "made with another mode: max-autotune"),
        (lambda r: r.pop("kernels"), "is not a report"),
        (lambda r: r.update(breaks=7), "is not a report"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused(tmp_path: Path, change: Callable[[Report], Any], message: str):
    after = baseline()
    change(after)
    (tmp_path / "report.json").write_text(json.dumps(after))
    with pytest.raises(BadFileError) as refused:
        read_baseline(str(tmp_path / "report.json"), Config())
    assert message in refused.value.sentence


@pytest.mark.parametrize("text", ["", "[]", "[[[", '"x"', "{}", "\x00"])
def test_another_file_is_no_baseline(tmp_path: Path, text: str):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(BadFileError):
        read_baseline(str(tmp_path / "report.json"), None)
