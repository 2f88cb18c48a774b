"""The sweep study: which sizes recompile, and at which sizes compiling helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.verdicts import format_speedup
from tcexplore.session.economics import RunFigures
from tcexplore.studies.study import StudyState
from tcexplore.studies.sweep import Sweep, SweepOptions, SweepStep, bar, conclusions, longest, planned_steps, suggested
from tcexplore.studies.timed_cells import BUDGET_SPENT, STOPPED
from tests import fakes
from tests.studies.playback import JOB, failed, json_of, played, printed, shown, timed

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


async def swept() -> StudyState[SweepOptions, SweepStep]:
    state, _ = await played("sweep", story, SweepOptions(0, SIZES))
    return state


async def sweep() -> Sweep:
    return Sweep(0, SIZES, tuple((await swept()).results))


def test_runs_over_all_sizes_are_neither_timed_nor_examined():
    jobs = [job for _, size, job in planned_steps(JOB, SweepOptions(1, SIZES)) if not size]
    assert [(job.time_for, job.examine, job.config.dim, job.config.dynamic) for job in jobs] == [
        (0.0, False, 1, None), (0.0, False, 1, True),
    ]  # fmt: skip


async def test_sizes_that_compile_and_sizes_where_compiling_helps():
    result = await sweep()
    assert result.compiled_at("auto") == (1, 8, 64)
    assert result.compiled_at("dynamic") == (1, 8)
    assert (result.helps_from("static"), result.helps_from("dynamic")) == (8, None)


async def test_the_results_as_text_and_json():
    state = await swept()
    report = printed("sweep", state)
    for sentence in (
        "static: compiling helps from size 8 up, not at 1 (2 to 7 not measured)",
        "all sizes, dynamic=auto: recompiled at size 8, 64",
        "all sizes, dynamic=True: recompiled at size 8",
        "✖ dynamic, size 64: InductorError: lowering failed",
        "64  static   ████████████████████│████████████████████  2.00× ▲",
    ):
        assert sentence in report, report
    fields = json_of("sweep", state)
    assert [size["size"] for size in fields["sizes"]] == [1, 8, 64]
    assert fields["all_sizes"]["dynamic"]["recompiled_at"] == [8]
    assert fields["helps_from"] == {"static": 8, "dynamic": None}


async def test_each_size_at_which_compiling_helps_has_its_break_even():
    def with_compile(job: ev.Job) -> list[ev.Event]:
        call = ev.CallMade(index=0, variant="compiled", seconds=3.0, compiles=1)
        return [call, *story(job)] if len(job.config.sizes) == 1 else story(job)

    state, _ = await played("sweep", with_compile, SweepOptions(0, SIZES))
    static, *others = [line for line in printed("sweep", state).splitlines() if "break-even" in line]
    assert "static: break-even at size 8 after about " in static
    assert "calls (3.00 s to compile), at size 64 after about" in static
    assert not others, "nothing is saved with dynamic shapes"
    ones, eights, _ = [size["static"] for size in json_of("sweep", state)["sizes"]]
    assert ones["break_even_calls"] is None
    assert eights["break_even_calls"] > 0


async def test_sizes_that_were_timed_beside_other_programs_are_named():
    def loaded(job: ev.Job) -> list[ev.Event]:
        one, *rest = story(job)
        if isinstance(one, ev.TimingEstimate) and not job.config.dynamic:
            busy = {1: 1.4, 8: 1.9, 64: 0.1}[job.config.sizes[0]]
            one = replace(one, cores=2, busy_cores=busy, eager_us={1: 530.0, 8: 658.0, 64: 75.0}[job.config.sizes[0]])
        return [one, *rest]

    state, _ = await played("sweep", loaded, SweepOptions(0, SIZES))
    sentences = list(conclusions(Sweep(0, SIZES, tuple(state.results))))
    assert (
        "static, size 1; static, size 8 were timed while other programs used up to 1.9 of 2 cores: without them, the "
        "speedups may be others."
    ) in sentences
    assert any(
        sentence.startswith("Eager took 530 µs at size 1 and 75.0 µs at size 64: the load") for sentence in sentences
    )
    quiet = list(conclusions(await sweep()))
    assert not any("other programs" in sentence or "Eager took" in sentence for sentence in quiet)


async def test_conclusions_count_the_measured_sizes():
    whole = await sweep()
    some = Sweep(0, SIZES, tuple(step for step in whole.steps if step.size != 64))
    assert next(conclusions(some)) == "static: compiling helps at size 8 so far; 2 of 3 sizes measured"
    smallest = Sweep(0, SIZES, tuple(step for step in whole.steps if step.size == 1))
    assert next(conclusions(smallest)) == "static: compiling helps at no size so far; 1 of 3 sizes measured"
    dynamic = Sweep(0, SIZES, tuple(step for step in whole.steps if (step.form, step.size) != ("dynamic", 8)))
    assert "dynamic: compiling helps at no size so far; 1 of 3 sizes measured, 1 failed" in conclusions(dynamic)


async def test_sizes_that_are_compiled_but_not_yet_timed_are_not_called_worse():
    whole = await sweep()

    def conclude(sizes: tuple[int, ...], **changed: Any) -> str:
        def again(step: SweepStep) -> SweepStep:
            figures = RunFigures(replace(step.figures.run, **changed))
            return replace(step, figures=figures) if step.size in sizes else step

        return next(conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps)))))

    untimed = conclude((64,), timing=None, timing_skipped="")
    assert untimed == "static: compiling helps at size 8 so far; 2 of 3 sizes measured"
    for reason in (STOPPED, BUDGET_SPENT):
        assert conclude((64,), timing=None, timing_skipped=reason) == untimed
    never_steady = conclude((64,), timing=None, timing_skipped="the times never became steady")
    assert never_steady == "static: compiling helps at size 8, but not at 64"
    assert not conclude(SIZES, timing=timed(2.0, verdict="measuring")).startswith("static")


def test_a_sweep_stopped_before_its_first_result_says_so():
    state = StudyState[SweepOptions, SweepStep](JOB, SweepOptions(0, SIZES), stopped=True)
    assert printed("sweep", state).splitlines()[1:] == ["stopped after 0 results"]


async def test_compiling_does_not_help_at_sizes_that_are_undecided_or_wrong():
    whole = await sweep()
    noisy = timed(1.19, verdict="undecided")
    wrong = ev.Accuracy(verdict="wrong", worst="output 0", calls=1, total_calls=1)

    def again(step: SweepStep) -> SweepStep:
        if (step.form, step.size) == ("static", 64):
            return replace(step, figures=RunFigures(step.figures.run.apply(replace(noisy, run=step.figures.run.run))))
        if (step.form, step.size) == ("static", 8):
            return replace(step, figures=RunFigures(step.figures.run.apply(replace(wrong, run=step.figures.run.run))))
        return step

    first, *others = conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps))))
    assert first == "static: size 64 undecided; compiling helps at no other size"
    assert any(line.startswith("✖ static, size 8: ") and "output 0" in line for line in others)
    alone = tuple(step for step in map(again, whole.steps) if (step.form, step.size) == ("static", 64))
    assert next(conclusions(Sweep(0, (64,), alone))) == "static: size 64 undecided"


async def test_an_undecided_size_above_sizes_that_help_is_not_called_worse():
    whole = await sweep()

    def again(step: SweepStep) -> SweepStep:
        noisy = replace(timed(1.4, verdict="undecided"), run=step.figures.run.run)
        undecided = (step.form, step.size) == ("static", 64)
        return replace(step, figures=RunFigures(step.figures.run.apply(noisy))) if undecided else step

    first, *_ = conclusions(Sweep(0, SIZES, tuple(map(again, whole.steps))))
    assert first == "static: compiling helps at size 8; size 64 undecided"


async def test_sizes_that_help_are_listed_if_a_larger_one_does_not():
    whole = await sweep()

    def again(step: SweepStep) -> SweepStep:
        slow = (step.form, step.size) == ("static", 64)
        worse = replace(timed(0.9, eager_us=900.0), run=step.figures.run.run)
        return replace(step, figures=RunFigures(step.figures.run.apply(worse))) if slow else step

    steps = tuple(map(again, whole.steps))
    assert next(conclusions(Sweep(0, SIZES, steps))) == "static: compiling helps at size 8, but not at 64"
    fast = [
        replace(step, figures=RunFigures(step.figures.run.apply(replace(timed(1.5), run=step.figures.run.run))))
        if (step.form, step.size) == ("static", 1) else step
        for step in steps
    ]  # fmt: skip
    first = next(conclusions(Sweep(0, SIZES, tuple(fast))))
    assert first == "static: compiling helps up to size 8, but not at 64", "also at 1"


def test_the_bar_of_an_undecided_speedup_shades_its_interval():
    unknown = replace(timed(0.04, verdict="undecided"), low=0.5, high=1.5)
    assert bar(timed(1.5), 2.0, 8) == "████│██  "
    assert bar(unknown, 2.0, 8) == "  ░░│░░  "
    assert longest([timed(1.5), replace(unknown, high=40.0)]) == 2.0
    assert longest([timed(9.0), unknown]) == 9.0
    assert (format_speedup(unknown), format_speedup(timed(1.5))) == ("0.04× ?", "1.50× ▲")


async def test_a_size_that_fails_without_a_compiler_does_not_hide_recompiles_at_the_others():
    crash = ev.Failed(stage="eager", blame="user", type="RuntimeError", message="shape")

    def crashing(job: ev.Job) -> list[ev.Event]:
        if 8 in job.config.sizes:
            return [crash]
        calls = [
            ev.CallMade(index=i, variant="compiled", seconds=1.0, compiles=1) for i in range(len(job.config.sizes))
        ]
        return [*calls, timed(2.0), ev.Finished()]

    state, player = await played("sweep", crashing, SweepOptions(0, SIZES))
    report = printed("sweep", state)
    assert "all sizes, dynamic=auto: recompiled at size 64; not called: 8" in report
    assert "✖ static, size 8: RuntimeError: shape" in report
    assert "static: compiling helps from size 1 up" in report
    assert [job.config.sizes for job in player.jobs][-2:] == [(1, 64), (1, 64)]
    fields = json_of("sweep", state)
    assert fields["all_sizes"]["auto"]["recompiled_at"] == [64]


async def test_a_run_over_all_sizes_that_fails_is_not_called_free_of_recompiles():
    state, _ = await played("sweep", lambda _: [failed()], SweepOptions(0, SIZES))
    assert "all sizes, dynamic=auto: no size was called" in printed("sweep", state)

    def after_one(job: ev.Job) -> list[ev.Event]:
        called = ev.CallMade(index=0, variant="compiled", seconds=1.0, compiles=1)
        return [called, failed()] if len(job.config.sizes) == len(SIZES) else story(job)

    state, _ = await played("sweep", after_one, SweepOptions(0, SIZES))
    assert "all sizes, dynamic=auto: no recompiles until it failed; not called: 8, 64" in printed("sweep", state)


async def test_each_speedup_stands_beside_the_eager_time_that_it_is_of():
    def slower_machine(job: ev.Job) -> list[ev.Event]:
        events = story(job)
        dynamic = bool(job.config.dynamic)
        return [replace(e, eager_us=164.0) if dynamic and isinstance(e, ev.TimingEstimate) else e for e in events]

    state, _ = await played("sweep", slower_machine, SweepOptions(0, SIZES))
    row = next(row for row in shown("sweep", state).splitlines() if row.split()[:1] == ["8"])
    assert row.split()[1:3] == ["100", "µs"]
    assert "164 µs" in row


async def test_size_1_is_named_as_the_reason_for_a_second_compile():
    state, _ = await played("sweep", story, SweepOptions(0, SIZES))
    assert "all sizes, dynamic=True: recompiled at size 8, since torch compiles size 1 on its own" in printed(
        "sweep", state
    )


def sizes_of_calls(*batches: int) -> ev.SizesSeen:
    """Return the sizes of a script that called its region with these batches."""
    sizes = tuple(
        ev.SizesCounted(
            inputs=(f"i64[8, {batch}]",), grad=True, calls=1, compiles=0, first_call=number,
            tensors=(ev.TensorSize(argument="0", size=(8, batch)),),
        )
        for number, batch in enumerate(batches, 1)
    )  # fmt: skip
    change = ev.RecompileChange(name="0", kind="mark_dynamic", dim=1)
    values = tuple((batch, batches.count(batch)) for batch in sorted(set(batches)))
    varying = (ev.VaryingSize(dims=(change,), values=values),) if len(values) > 1 else ()
    return ev.SizesSeen(run=1, region=0, sizes=sizes, varying=varying)


def test_the_sizes_of_a_script_are_suggested():
    run = fakes.complete(1)
    assert suggested(replace(run, sizes_seen=(sizes_of_calls(64, 64, 40),))) == (1, (1, 40, 64))
    last_batch = sizes_of_calls(*[64] * 20, 40)
    assert suggested(replace(run, sizes_seen=(last_batch,))) == (1, (1, 4, 16, 64, 256)), "a smaller last batch"
    many = [size for size in range(10, 30) for _ in range(size)]
    assert suggested(replace(run, sizes_seen=(sizes_of_calls(*many),))) == (1, (1, 24, 25, 26, 27, 28, 29))
    assert suggested(replace(run, sizes_seen=(sizes_of_calls(64, 64),))) == (0, (1, 2, 8, 32))
    empty = sizes_of_calls(0, 64, 40)
    assert suggested(replace(run, sizes_seen=(empty,))) == (1, (1, 40, 64)), "a study cannot resize to 0"
    other = tuple(replace(varying, dims=(replace(varying.dims[0], name="1"),)) for varying in empty.varying)
    assert suggested(replace(run, sizes_seen=(replace(empty, varying=other),))) == (0, (1, 2, 8, 32)), "not resized"
    two = (replace(sizes_of_calls(16, 24), region=3), sizes_of_calls(64, 40))
    assert suggested(replace(run, sizes_seen=two)) == (1, (1, 40, 64)), "of the first region, not of the newest"
    assert suggested(None) == (0, (1, 4, 16, 64))
