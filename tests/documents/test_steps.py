"""The timing pane of a script whose steps are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.document import Document
from tcexplore.documents.timing.next_view import next_document
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.report.json_report import script_fields
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.next_steps import compared_calls
from tcexplore.session.snapshot import start_snapshot
from tests import fakes
from tests.documents import golden
from tests.report.whole_report import validate

FILE = "/models/train.py"

ESTIMATE = ev.TimingEstimate(
    eager_us=211_300, eager_spread_us=4_100, compiled_us=174_500, compiled_spread_us=3_900, speedup=1.21, low=1.18,
    high=1.24, noise_floor=0.021, pairs=23, verdict="faster", threads=8, device="cpu", train=True, control_pairs=9,
    pairs_taken=23, unit="step",
)  # fmt: skip

STEPS = ev.StepsTimed(
    border="optimizer", step="AdamW", steps=120, warm_up=9, eager=38, timed=64, irregular=4, steps_per_epoch=50.0,
    regions=(
        ev.StepRegion(
            region=0, calls=4, eager_us=208_000, compiled_us=174_600, speedup=1.19, low=1.16, high=1.22, pairs=12,
            verdict="faster", share=0.58,
        ),
        ev.StepRegion(region=1, calls=1, share=0.07),
    ),
    rest=(
        ev.StepPart(name="optimizer", us=36_000, share=0.21),
        ev.StepPart(name="loading data", us=24_000, share=0.14),
    ),
)  # fmt: skip


def script(*more: ev.Event) -> Snapshot:
    """Return a script in which two regions were compiled."""
    run = start_snapshot(ev.Job(run=1, file=FILE, source="\n" * 60))
    events: tuple[ev.Event, ...] = (
        ev.EntryFound(name="__main__", kind="script", rule="the file compiles something itself", calls=()),
        ev.RegionCreated(region=0, name="GPT", kind="module", location=ev.Location(FILE, 41)),
        ev.RegionCreated(region=1, name="AdamW.step", kind="optimizer", location=ev.Location(FILE, 44)),
        ev.PhaseTimed(name="entire_frame_compile", seconds=7.2, graph="0/0", depth=0),
        *more,
    )
    for event in events:
        run = run.apply(replace(event, run=1))
    return run


@pytest.mark.parametrize("width", [38, 78])
def test_steps(width: int):
    golden.check(f"steps-{width}", golden.text(timing_document(script(ESTIMATE, STEPS), frozenset(), width)))


def test_a_script_that_is_not_timed_says_why():
    skipped = ev.TimingSkipped(reason="the script ended after 3 steps; a verdict needs about 27. Use --repeat")
    unfinished = script(replace(ESTIMATE, verdict="measuring", pairs=2), STEPS, skipped, ev.Finished())
    texts = [golden.text(timing_document(run)) for run in (script(), script(skipped, ev.Finished()), unfinished)]
    golden.check("steps-untimed", "".join(texts))


def test_what_limits_the_timing_is_noted():
    noted = replace(
        STEPS, random=True, varying=True, stopped="memory ran low", repeats=2, border="function", step="fit"
    )
    text = golden.text(timing_document(script(ESTIMATE, noted)))
    for note in ("draws random numbers", "differ from step to step", "memory ran low", "the script ran 3 times",
                 "A step is a call of fit."):  # fmt: skip
        assert note in text


def test_break_even_is_in_steps_and_epochs():
    run = script(ESTIMATE, STEPS)
    assert economics(run).break_even_calls == pytest.approx(7.2e6 / (211_300 * (1 - 1 / 1.21)), abs=1)
    text = golden.text(timing_document(run))
    assert "per step" in text
    assert "per call" not in text
    assert "Break-even after 3.9 epochs" in text


def test_a_script_with_fewer_steps_than_the_break_even_point_says_so():
    def text(steps: int, *end: ev.Event, repeats: int = 0, of: Callable[..., Document] = timing_document) -> str:
        seen = ev.RegionCalls(
            region=0, calls=3 * steps, warm=0, seconds=1.0, sampled=0, median_us=None, low_us=None, high_us=None,
            entered=None, resumed=None, uncompiled=0, raised=0, eager=steps, bin_s=1.0, activity=(),
        )  # fmt: skip
        run = script(ESTIMATE, replace(STEPS, steps=40, repeats=repeats), seen, *end)
        run = replace(run, graphs=fakes.complete().graphs)
        return " ".join(golden.text(of(run)).split())

    short = "This script has about 120 steps: compiling most likely makes it take longer."
    end = ev.ScriptEnded(seconds=9.0)
    assert short in text(120, end)
    assert short in text(120, end, of=next_document)
    compared: list[int] = []

    def advice(run: Snapshot) -> Document:
        compared.append(compared_calls(run))
        return next_document(run)

    assert "Leave the program uncompiled for 120 steps" in text(120, end, of=advice)
    assert text(120, of=advice)
    assert compared == [120, 10_000], "of a script that has not ended, the number of steps is not known"
    assert "Leave the program" not in text(300, end, of=next_document)
    assert short in text(360, end, repeats=2)
    assert "This script has" not in text(120), "more steps may follow"
    assert "This script has" not in text(120, replace(end, time_limit=9.0), ev.Finished()), "it was stopped"
    failed = ev.Failed(stage="importing", blame="user", type="ValueError", message="no")
    assert "This script has" not in text(120, end, failed)
    assert "This script has" not in text(300, end)


def test_json():
    run = script(ESTIMATE, STEPS)
    validate(run)
    steps = script_fields(run)["steps"]
    assert (steps["eager_us"], steps["compiled_us"], steps["speedup"]) == (211_300, 174_500, 1.21)
    assert (steps["ci95"], steps["verdict"], steps["pairs"]) == ([1.18, 1.24], "faster", 23)
    assert [(one["region"], one["share"], one["ci95"]) for one in steps["regions"]] == [
        (0, 0.58, [1.16, 1.22]), (1, 0.07, None),
    ]  # fmt: skip
    assert steps["break_even_epochs"] == pytest.approx(197 / 50)
