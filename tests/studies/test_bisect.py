"""The bisect study names the stage that has a seeded fault, and its reproducer fails without tcexplore."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.studies.bisect import STUDY, BisectOptions, BisectStep, first_failure
from tcexplore.studies.reproducer import write_reproducer
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.studies.faults import FAULTS, LOWERING
from tests.studies.playback import GRAPH, JOB, MACHINE, failed, json_of, played, printed
from tests.supervisor.runs import Runs as SharedRuns

State = StudyState[BisectOptions, BisectStep]


async def bisected(story: Callable[[ev.Job], list[ev.Event]], mode: str = "default") -> State:
    state, _ = await played("bisect", story, job=replace(JOB, config=ev.Config(mode=mode)))
    return state


GOOD = [GRAPH, ev.Accuracy(verdict="as accurate as eager"), ev.Finished()]


async def test_each_step_adds_one_stage_and_modes_come_last():
    state = await bisected(lambda _: GOOD, "max-autotune")
    configs = [(step.stage.backend, step.run.config.fuse, step.run.config.mode) for step in state.results[1:]]
    assert configs == [
        ("eager", True, "default"), ("aot_eager", True, "default"), ("inductor", False, "default"),
        ("inductor", True, "default"), ("inductor", True, "max-autotune"),
    ]  # fmt: skip
    assert first_failure(state.results) is None


async def test_stages_that_had_nothing_to_do_are_named():
    kernel = ev.Kernel(graph="0/0", phase="forward", name="k", language="cpp", source="")

    def story(job: ev.Job) -> list[ev.Event]:
        return [GRAPH, kernel, *GOOD[1:]] if job.config.backend == "inductor" else GOOD

    state = await bisected(story)
    assert "stages that were not exercised: Inductor's fusion (nothing was fused)." in printed("bisect", state)
    assert [stage["unexercised"] for stage in json_of("bisect", state)["stages"]][-2:] == [None, "nothing was fused"]
    state = await bisected(lambda _: GOOD[1:])
    assert "No compiler stage was exercised: no graph was captured." in printed("bisect", state)


async def test_results_that_were_not_compared_do_not_count_as_good():
    script = ev.EntryFound(name="", kind="script", rule="", calls=())
    state = await bisected(lambda _: [script, GRAPH, ev.Finished()])
    stages = json_of("bisect", state)["stages"]
    assert [stage["fails"] for stage in stages] == [False, *[None] * (len(stages) - 1)]
    assert stages[1]["not_compared"] == "a script has no eager form to compare with"
    too_large = ev.Accuracy(verdict="not judged", reason="it is too large")
    state = await bisected(lambda _: [GRAPH, too_large, ev.Finished()])
    assert [(s["fails"], s["not_compared"]) for s in json_of("bisect", state)["stages"]][1] == (None, "it is too large")
    good = json_of("bisect", await bisected(lambda _: GOOD))["stages"]
    assert {(stage["fails"], stage["not_compared"]) for stage in good} == {(False, None)}


async def test_stages_that_the_budget_left_out_are_no_success():
    state, _ = await played("bisect", lambda job: GOOD if job.config.backend == "eager" else [], job=JOB, budget_s=0.2)
    assert (len(state.skipped), STUDY.exit_status(state)) == (3, 1)


@pytest.mark.parametrize(
    ("event", "stage"),
    [
        (failed(), "AOTAutograd"),
        (ev.Accuracy(verdict="less accurate than eager"), "AOTAutograd"),
        (replace(failed(), stage="eager", blame="user"), "your own code"),
    ],
)
async def test_the_first_failing_stage_is_the_last_one_that_runs(event: ev.Event, stage: str):
    def story(job: ev.Job) -> list[ev.Event]:
        fails = job.config.backend == "aot_eager" or stage == "your own code"
        return [event, ev.Finished()] if fails else GOOD

    state = await bisected(story)
    failing = first_failure(state.results)
    assert failing is state.results[-1]
    assert failing.stage.name == stage
    assert ("First failing stage: AOTAutograd" in printed("bisect", state)) == (stage == "AOTAutograd")
    assert json_of("bisect", state)["stage"] == stage


def job(folder: Path, source: str) -> ev.Job:
    file = folder / "model.py"
    file.write_text(source)
    return ev.Job(run=1, file=str(file), source=source)


async def really_bisected(of: ev.Job, runs: Runs) -> State:
    state = State(of, BisectOptions(), 60)
    await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    return state


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_seeded_faults_are_located(tmp_path: Path, shared_runs: SharedRuns):
    located = {}
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        for stage, source in FAULTS.items():
            failing = first_failure((await really_bisected(job(tmp_path, source), runs)).results)
            located[stage] = failing.stage.name if failing else ""
    assert located == {stage: stage for stage in FAULTS}


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_the_reproducer_fails_by_itself(tmp_path: Path, shared_runs: SharedRuns):
    source = LOWERING.replace("inputs = (torch.randn(8, 16),)", "")
    of = job(tmp_path, source)
    of = replace(of, config=replace(of.config, inputs=("x=f32[8,16]",)))
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        state = await really_bisected(of, runs)
    failing = first_failure(state.results)
    assert failing is not None
    written = write_reproducer(str(tmp_path / "repro"), of, failing.run, failing.failure, state.machine)
    assert [path.name for path in written] == ["model.py", "repro.py", "fx_graph_0_0_0.py", "README.md"]
    command, folder = [sys.executable, "repro.py"], tmp_path / "repro"
    done = await asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False)
    assert "Tensor-likes are not close" in done.stderr, done.stderr


async def test_a_reproducer_is_written_if_a_stage_fails(tmp_path: Path):
    state = await bisected(lambda job: [failed(), ev.Finished()] if job.config.backend == "inductor" else GOOD)
    state.options = BisectOptions(str(tmp_path / "repro"))
    assert STUDY.write(state) == ""
    assert (tmp_path / "repro" / "repro.py").exists()
    assert f"python {tmp_path}/repro/repro.py" in " ".join(printed("bisect", state).split()), "a long path is wrapped"
    assert json_of("bisect", state)["reproducer"] == str(tmp_path / "repro")
    assert state.machine == MACHINE
