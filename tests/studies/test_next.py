"""The next study: steps are tried in separate processes, and the list has what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.session.next_steps import FREEZING, NextStep, StepAction, next_steps
from tcexplore.studies.fix import FixOptions
from tcexplore.studies.next import STUDY, NextOptions, StepResult, difference_interval, trial_job
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.studies.study_text import stopped_text
from tests import fakes
from tests.snapshots.runs import grow
from tests.studies.playback import JOB, json_of, played, printed, timed
from tests.studies.stories import exists
from tests.supervisor.runs import Runs as SharedRuns

IMAGES = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
model.eval()
inputs = (torch.randn(4, 3, 8, 8),)
"""

SIZES = """
import torch
def model(x):
    return torch.sin(x) + 1
inputs = [(torch.ones(8, 4),), (torch.ones(9, 4),), (torch.ones(10, 4),)]
"""

TIMED = ev.ChangeTimed(before_us=100.0, after_us=50.0, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=40)


def blocks_story(job: ev.Job) -> Sequence[ev.Event]:
    """Return a run that compiles for 40 s, or 10 s block by block."""
    seconds = 10.0 if job.config.regions == "blocks" else 40.0
    compiled = ev.PhaseTimed(name="compile", seconds=seconds, depth=0, graph="0/0", at=0.0)
    graph = fakes.one_graph().graphs[0]
    timed = () if job.baseline is None else (TIMED,)
    return [ev.RepeatedBlocks(kinds=(("Layer", 8),)), graph, compiled, *timed, ev.Finished()]


async def test_compile_times_are_compared_in_turns_with_empty_caches():
    state, player = await played("next", blocks_story)
    (step,) = [known for known in next_steps(state.results[-1].run) if known.action == "compile_blocks"]
    assert (step.gain.low, step.gain.value, step.gain.high, step.gain.unit) == (30.0, 30.0, 30.0, "seconds")
    compiled = [job for job in player.jobs if job.cache_dir]
    assert [job.config.regions for job in compiled] == ["whole", "blocks"] * 3
    assert len({job.cache_dir for job in compiled}) == 6
    assert not any(exists(job.cache_dir) for job in compiled)


def test_the_interval_of_saved_compile_time_follows_from_the_scatter_of_the_runs():
    assert difference_interval([40.0, 40.0, 40.0], [10.0, 10.0, 10.0]) == (30.0, 30.0)
    low, high = difference_interval([39.0, 40.0, 41.0], [10.0, 10.0, 10.0])
    assert (low, high) == pytest.approx((30 - 4.3 / 3**0.5, 30 + 4.3 / 3**0.5))


async def test_the_report_names_the_gain_and_what_was_tried():
    state, _ = await played("next", blocks_story)
    assert "saves 30.0 s [30.0 s, 30.0 s]" in printed("next", state)
    (found,) = json_of("next", state)["next"]
    assert (found["action"], found["gain_low"], found["measured"]) == ("compile_blocks", 30.0, True)
    assert found["tried"]["speedup"] == 2.0


async def test_a_step_that_fails_is_a_result():
    def story(job: ev.Job) -> Sequence[ev.Event]:
        failed = ev.Failed(stage="compiler", blame="compiler", type="RuntimeError", message="no blocks")
        return [failed] if job.config.regions == "blocks" else blocks_story(job)

    state, _ = await played("next", story)
    (step,) = next_steps(state.results[-1].run)
    assert step.tried is not None
    assert step.tried.problem == "RuntimeError: no blocks"


async def test_the_command_tries_as_many_steps_as_asked_for():
    state, player = await played("next", blocks_story, NextOptions(most=1))
    assert sum(job.baseline is not None for job in player.jobs) == 1
    assert len(state.results) == 1


TWO_ITEMS = """import torch
def model(x):
    y = x * x.mean().item()
    return y * y.max().item()
"""
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
BOTH = ev.Job(run=1, file="/tmp/model.py", source=TWO_ITEMS)


def items_story(job: ev.Job) -> Sequence[ev.Event]:
    """Return a run with a break on each line that has `.item()`; the file is twice as fast without one of them."""
    lines = [number for number, line in enumerate(job.source.splitlines(), 1) if ".item()" in line]
    breaks = [
        ev.GraphBreak(
            graph=f"{line}/0", registry_id=None, kind=ITEM, reason="a value", code=job.source.splitlines()[line - 1],
            location=ev.Location(job.file, line, "model"),
        )
        for line in lines
    ]  # fmt: skip
    speedup = 2.0 ** (2 - len(lines))
    timed = replace(TIMED, speedup=speedup, low=speedup - 0.1, high=speedup + 0.1, after_us=100.0 / speedup)
    checked = ev.ChangeChecked(verdict="identical", calls=1, varied=3)
    compared = () if job.baseline is None else (checked, timed)
    return [fakes.one_graph().graphs[0], *breaks, *compared, ev.Finished()]


async def test_the_fixes_of_all_breaks_are_tried_together():
    state, player = await played("next", items_story, job=BOTH)
    (step,) = [known for known in next_steps(state.results[-1].run) if known.action == "fix_breaks"]
    assert (step.gain.low, step.gain.value, step.gain.high) == (3.9, 4.0, 4.1)
    assert step.tried is not None
    assert step.tried.fixes == (2, 2)
    assert any(".item()" not in job.source and job.baseline == TWO_ITEMS for job in player.jobs)
    text = printed("next", state)
    assert "Remove 2 graph breaks together" in text
    assert "Each has a fix: line 3, line 4." in text
    assert "2 of 2 fixes are verified, each on top of those before." in text
    (found,) = [fields for fields in json_of("next", state)["next"] if fields["action"] == "fix_breaks"]
    assert (found["gain"], found["tried"]["fixes"]) == (4.0, [2, 2])


async def test_the_report_on_fixes_has_the_time_of_all_together():
    state, _ = await played("fix", items_story, job=BOTH)
    assert "all fixes together: Compiled call: 100 µs before, 25.0 µs now: 4.00×" in printed("fix", state)
    assert json_of("fix", state)["together"]["speedup"] == 4.0
    one, _ = await played("fix", items_story, FixOptions(number=1), job=BOTH)
    assert "together" not in printed("fix", one)


async def test_without_a_verified_fix_there_is_no_gain_of_all_together():
    def story(job: ev.Job) -> Sequence[ev.Event]:
        return [replace(event, verdict="wrong") if isinstance(event, ev.ChangeChecked) else event
                for event in items_story(job)]  # fmt: skip

    state, _ = await played("next", story, job=BOTH)
    run = state.results[-1].run
    assert [known.problem for known in run.steps_tried] == ["no fix could be verified"]
    assert all(known.action != "fix_breaks" for known in next_steps(run))


def test_a_stopped_study_says_how_many_steps_were_tried():
    """It keeps only its newest result."""
    state = StudyState[NextOptions, StepResult](JOB, NextOptions(), steps_done=3, stopped=True)
    assert stopped_text(state) == "stopped after 3 steps"
    state.steps_done = None
    assert stopped_text(state) == "stopped after 0 results"


def test_a_trial_times_both_configurations_of_the_same_text():
    config = replace(JOB.config, autocast="bfloat16")
    job = trial_job(JOB, NextStep(action="autocast", target="bfloat16", config=config))
    assert (job.source, job.baseline) == (JOB.source, JOB.source)
    assert (job.config.autocast, job.baseline_config) == ("bfloat16", JOB.config)


async def test_the_gain_of_a_larger_batch_is_per_item():
    config = ev.Config(sizes=(8,))
    step = NextStep(action="larger_batch", target="it", config=config, trial="run", before=4, number=8)
    options = NextOptions(only=step.key, run=fakes.one_graph(1), step=step)
    state, _ = await played("next", lambda _: [TIMED, ev.Finished()], options)
    (known,) = state.results[-1].run.steps_tried
    assert (known.low, known.speedup, known.high) == (2 * TIMED.low, 2 * TIMED.speedup, 2 * TIMED.high)
    assert (known.before_us, known.after_us) == (TIMED.before_us, TIMED.after_us)


# ---- with torch


async def tried(
    action: StepAction, config: ev.Config, source: str, folder: Path, runs: SharedRuns, **more: Any
) -> ev.StepTried:
    """Try a step of a program, and return the result. It is timed for half a second instead of `TIMING_S`."""
    job = ev.Job(run=1, file=str(folder / "model.py"), source=source, time_for=0.5, timing_processes=1)
    step = NextStep(action=action, target="it", config=config, trial="run", **more)
    graph = fakes.one_graph(1)
    state = StudyState[NextOptions, StepResult](job, NextOptions(only=step.key, run=graph, step=step), 120.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcexplore.studies.next.TIMING_S", job.time_for)
        async with Runs(runs.supervisor.study_queue) as study_runs:
            await run_study(STUDY, state, study_runs, lambda _: None, lambda _: None)
    (known,) = state.results[-1].run.steps_tried
    assert known.problem == ""
    return known


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("action", "config", "verdict"),
    [
        ("autocast", ev.Config(autocast="bfloat16"), ("not close to eager", "close to eager")),
        ("channels_last", ev.Config(channels_last=True), ("close to eager", "identical")),
        ("matmul_precision", ev.Config(matmul_precision="high"), ("close to eager", "identical")),
        ("freezing", ev.Config(settings=(FREEZING,)), ("close to eager", "identical")),
    ],
)
async def test_a_step_is_timed_and_its_results_compared(
    action: StepAction, config: ev.Config, verdict: tuple[str, ...], tmp_path: Path, shared_runs: SharedRuns
):
    known = await tried(action, config, IMAGES, tmp_path, shared_runs)
    assert known.speedup is not None
    assert known.results is not None
    assert known.results.verdict in verdict
    assert ("bf16" in " ".join(known.results.differences)) == (action == "autocast")


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_a_larger_batch_is_timed_and_its_results_are_not_judged(tmp_path: Path, shared_runs: SharedRuns):
    known = await tried(
        "larger_batch", ev.Config(sizes=(8,)), IMAGES, tmp_path, shared_runs, before=4, number=8,
    )  # fmt: skip
    assert None not in (known.speedup, known.before_us, known.after_us)
    assert known.results is not None
    assert known.results.verdict == "not judged"


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_a_dynamic_size_avoids_recompiles(tmp_path: Path, shared_runs: SharedRuns):
    known = await tried(
        "avoid_recompiles", ev.Config(mark_dynamic=("x.0",)), SIZES, tmp_path, shared_runs, compiles=True,
    )  # fmt: skip
    assert known.recompiles is not None
    assert known.recompiles[0] > known.recompiles[1] == 0
    assert known.compile_s is not None


def script_story(job: ev.Job) -> Sequence[ev.Event]:
    """Return a script whose steps are twice as fast as eager ones, or three times with another mode."""
    entry = ev.EntryFound(name="", kind="script", rule="it calls torch.compile", calls=())
    faster = 3.0 if job.config.mode == "max-autotune" else 2.0
    return [entry, fakes.one_graph().graphs[0], timed(faster), ev.Finished()]


async def test_a_step_of_a_script_is_tried_by_the_arguments_of_its_own_calls():
    config = replace(JOB.config, mode="max-autotune", override=("mode",))
    step = NextStep(action="mode", target="max-autotune", config=config, trial="run")
    run = grow(1, script_story(JOB))
    state, player = await played("next", script_story, NextOptions(only=step.key, run=run, step=step))
    (known,) = state.results[-1].run.steps_tried
    assert known.speedup == pytest.approx(1.5)
    assert (known.low, known.high) == pytest.approx((2.99 / 2.01, 3.01 / 1.99))
    assert known.verdict == "faster"
    assert [job.baseline for job in player.jobs] == [None, None]
    assert state.steps_done == 1
