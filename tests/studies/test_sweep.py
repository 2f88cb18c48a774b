"""Sizes one after another: which made it compile again, from which on compiling helps."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from tcexplore import events as ev
from tcexplore.documents.verdict_marks import format_speedup
from tcexplore.report.text.sweep import print_sweep
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.study_runs import Runs
from tcexplore.studies.sweep.sweep_json import sweep as fields
from tcexplore.studies.sweep.sweep_plan import plan, steps
from tcexplore.studies.sweep.sweep_result import Sweep, SweepStep
from tcexplore.studies.sweep.sweep_text import bar, conclusions, longest
from tests.studies.playing import JOB, MACHINE, Playback, failed, timed

SIZES = (1, 8, 64)
SPEEDUPS = {(False, 1): 0.5, (False, 8): 1.4, (False, 64): 2.0, (True, 1): 0.4, (True, 8): 0.8}


def story(job: ev.Job) -> list[ev.Event]:
    config = job.config
    if len(config.sizes) == len(SIZES):
        compiles = (1, 1, 0) if config.dynamic else (1, 1, 1)
        called = [ev.CallMade(index=i, variant="compiled", seconds=1.0, compiles=n) for i, n in enumerate(compiles)]
        return [*called, ev.Finished()]
    speedup = SPEEDUPS.get((bool(config.dynamic), config.sizes[0]))
    return [timed(speedup), ev.Finished()] if speedup else [failed()]


async def swept() -> Sweep:
    async with Runs(lambda emit: Playback(emit, story)) as runs:
        return Sweep(0, SIZES, tuple([step async for step in steps(plan(JOB, 0, SIZES), runs, 5.0)]))


def test_the_walks_are_neither_timed_nor_examined():
    jobs = [job for _, size, job in plan(JOB, 1, SIZES) if not size]
    assert [(job.time_for, job.examine, job.config.dim, job.config.dynamic) for job in jobs] == [
        (0.0, False, 1, None), (0.0, False, 1, True),
    ]  # fmt: skip


async def test_what_follows_from_the_sizes():
    found = await swept()
    assert found.compiled_at("auto") == (1, 8, 64)
    assert found.compiled_at("dynamic") == (1, 8)
    assert (found.helps_from("static"), found.helps_from("dynamic")) == (8, None)


async def test_the_sweep_as_text_and_as_json():
    found = await swept()
    page = StringIO()
    print_sweep(found, MACHINE, stream=page)
    text = page.getvalue()
    for said in (
        "static: compiling helps from size 8 on",
        "all sizes in turn, dynamic auto: compiled again at size 8, 64",
        "all sizes in turn, dynamic true: compiled again at size 8",
        "✖ dynamic, size 64: InductorError: lowering failed",
        "64  static   ████████████████████│████████████████████  2.00× ▲",
    ):
        assert said in text, text
    whole = fields(found, MACHINE, stopped=False)
    assert [size["size"] for size in whole["sizes"]] == [1, 8, 64]
    assert whole["walks"]["dynamic"]["recompiled_at"] == [8]
    assert whole["helps_from"] == {"static": 8, "dynamic": None}


async def test_what_is_said_of_some_of_the_sizes_says_so():
    whole = await swept()
    some = Sweep(0, SIZES, tuple(step for step in whole.steps if step.size != 64))
    assert next(conclusions(some)) == "static: compiling helps from size 8 on, as far as is known at 2 of 3 sizes"


def test_a_sweep_that_was_stopped_says_what_it_has():
    page = StringIO()
    print_sweep(Sweep(0, SIZES, ()), MACHINE, stopped=True, stream=page)
    assert page.getvalue() == "stopped before the first run was done\n"


async def test_a_size_where_nothing_is_known_or_the_result_is_wrong_is_no_size_that_helps():
    whole = await swept()
    noisy = timed(1.19, verdict="undecided")
    wrong = ev.Accuracy(verdict="wrong", worst="output 0", calls=1, total_calls=1)

    def again(step: SweepStep) -> SweepStep:
        if (step.form, step.size) == ("static", 64):
            return replace(step, cell=RunFigures(step.cell.run.apply(replace(noisy, run=step.cell.run.run))))
        if (step.form, step.size) == ("static", 8):
            return replace(step, cell=RunFigures(step.cell.run.apply(replace(wrong, run=step.cell.run.run))))
        return step

    found = list(conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps)))))
    assert found[0] == "static: compiling helps at no size; too noisy to tell at size 64"
    assert "✖ static, size 8: compiled results are wrong: they differ from eager, most in output 0" in found


async def test_above_sizes_that_help_one_that_is_not_known_is_not_said_to_be_worse():
    whole = await swept()

    def again(step: SweepStep) -> SweepStep:
        noisy = replace(timed(1.4, verdict="undecided"), run=step.cell.run.run)
        here = (step.form, step.size) == ("static", 64)
        return replace(step, cell=RunFigures(step.cell.run.apply(noisy))) if here else step

    found = list(conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps)))))
    assert found[0] == "static: compiling helps at size 8; too noisy to tell at size 64"


async def test_a_size_that_helps_below_one_that_does_not_is_named():
    whole = await swept()

    def again(step: SweepStep) -> SweepStep:
        slow = (step.form, step.size) == ("static", 64)
        worse = replace(timed(0.9, eager_us=900.0), run=step.cell.run.run)
        return replace(step, cell=RunFigures(step.cell.run.apply(worse))) if slow else step

    found = list(conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps)))))
    assert found[0] == "static: compiling helps at size 8, but not at 64"


def test_a_bar_of_what_is_undecided_is_a_shade_over_all_that_it_may_be():
    unknown = replace(timed(0.04, verdict="undecided"), low=0.5, high=1.5)
    assert bar(timed(1.5), 2.0, 8) == "████│██  "
    assert bar(unknown, 2.0, 8) == "  ░░│░░  "
    assert longest([timed(1.5), replace(unknown, high=40.0)]) == 2.0
    assert longest([timed(9.0), unknown]) == 9.0
    assert (format_speedup(unknown), format_speedup(timed(1.5))) == ("?", "1.50× ▲")
