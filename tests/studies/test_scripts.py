"""Studies of scripts that call torch.compile themselves: with other arguments, or on a captured call of a region."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.capture.compile_overrides import replace_arguments
from tcexplore.events.config import ANY_REGION
from tcexplore.studies.bisect import first_failure
from tcexplore.studies.fix import FixOptions, by_break
from tcexplore.studies.recompiles import RecompilesOptions
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, load_study, run_study
from tcexplore.studies.sweep import SweepOptions
from tests.studies.playback import json_of, played, printed
from tests.supervisor.runs import Runs as SharedRuns

SCRIPT = ev.EntryFound(name="__main__", kind="script", rule="", calls=())

COMPILED = """
import torch
{fault}

@torch.compile(mode="max-autotune-no-cudagraphs")
def f(x):
    return x.sin().sum(-1).softmax(0)


x = torch.randn(8, 16)
torch.testing.assert_close(f(x), x.sin().sum(-1).softmax(0))
"""

LOWERING = """
from torch._inductor.lowering import lowerings
lowerings[torch.ops.aten.sin.default] = lowerings[torch.ops.aten.cos.default]
"""

SIZES = """
import torch

f = torch.compile(torch.relu, dynamic=False, backend="aot_eager")
for size in (2, 3, 4):
    f(torch.ones(size))
"""


def config(**changed: Any) -> ev.Config:
    return replace(ev.Config(), **changed)


@pytest.mark.parametrize(
    ("given", "changed", "result"),
    [
        ({"mode": "lite"}, config(override=("dynamic",)), {"mode": "lite", "dynamic": None}),
        ({"mode": "lite"}, config(override=("backend",), backend="eager"), {"backend": "eager"}),
        ({"options": {"a": 1}}, config(override=("backend",)), {"options": {"a": 1}, "backend": "inductor"}),
        ({"options": {"a": 1}}, config(override=("mode",), mode="lite"), {"mode": "lite"}),
        ({"fullgraph": True}, config(override=("disable",)), {"fullgraph": True, "disable": True}),
    ],
)
def test_replaced_arguments_leave_no_contradiction(given: dict[str, Any], changed: ev.Config, result: dict[str, Any]):
    assert replace_arguments(given, changed) == result


@pytest.mark.parametrize(
    ("name", "options"),
    [("sweep", SweepOptions(0, (1, 2, 4, 8))), ("recompiles", RecompilesOptions(("x.0=1..2",)))],
)
async def test_a_study_that_needs_inputs_takes_a_captured_call_of_a_script(name: str, options: object):
    _, player = await played(name, lambda _: [ev.Finished()], options)
    assert player.jobs
    assert {job.config.region for job in player.jobs} == {ANY_REGION}


async def test_a_script_without_a_crash_is_not_called_correct():
    state, player = await played("bisect", lambda _: [SCRIPT, ev.Finished()])
    report = printed("bisect", state)
    assert "Its results were not compared" in report
    assert "as good as eager's" not in report
    assert [step["stage"] for step in json_of("bisect", state)["stages"]][-1] == "the script's own arguments"
    assert player.jobs[-1].config.override == ()


def job(folder: Path, source: str) -> ev.Job:
    file = folder / "script.py"
    file.write_text(source)
    return ev.Job(run=1, file=str(file), source=source, time_for=0.0, profile=False)


async def studied(name: str, of: ev.Job, runs: Runs) -> StudyState[Any, Any]:
    study = load_study(name)
    state = StudyState[Any, Any](of, study.options_from(("",)), 60)
    await run_study(study, state, runs, lambda _: None, lambda _: None)
    return state


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_arguments_are_replaced_in_the_calls_of_a_script(tmp_path: Path, shared_runs: SharedRuns):
    queue = shared_runs.supervisor.study_queue
    async with Runs(queue) as runs:
        eager = config(override=("backend",), backend="eager")
        run = (await runs.run(replace(job(tmp_path, COMPILED.format(fault="")), config=eager), 60)).snapshot
        assert run.failure is None
        assert (len(run.graphs), run.code.kernels) == (1, ())

        bisected = await studied("bisect", job(tmp_path, COMPILED.format(fault=LOWERING)), runs)
        failing = first_failure(bisected.results)
        assert failing is not None
        assert failing.stage.name == "Inductor's lowering and code generation"
        assert failing.failed is not None
        assert failing.failed.type == "AssertionError"
    async with Runs(queue) as runs:
        varied = await studied("recompiles", job(tmp_path, SIZES), runs)
        assert [(one.variant.name, one.recompiles) for one in varied.results] == [("unchanged", 2), ("dynamic=True", 0)]


async def test_an_eager_failure_of_a_script_is_not_a_stage_of_the_compiler():
    crash = ev.Failed(stage="importing", blame="user", type="ZeroDivisionError", message="division by zero")
    state, player = await played("bisect", lambda _: [SCRIPT, crash])
    assert json_of("bisect", state)["stage"] == "your own code"
    assert any(job.config.override == ("disable",) for job in player.jobs)


BROKEN = """
import torch
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        print("between")
        return y.relu()


@torch.compile(backend="aot_eager")
def other(x):
    return x * 2


net = Net()
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    model(other(torch.randn(4, 8))).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_a_fix_of_a_script_is_verified_on_a_captured_call(tmp_path: Path, shared_runs: SharedRuns):
    study = load_study("fix")
    state = StudyState[Any, Any](job(tmp_path, BROKEN), FixOptions(), 60)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(study, state, runs, lambda _: None, lambda _: None)
    (fixes,) = by_break(state.results)
    assert fixes.verified is not None, [one.objection for one in fixes.verifications]
    assert not fixes.verified.before.is_script
    assert (len(fixes.verified.before.breaks), len(fixes.verified.after.breaks)) == (1, 0)
    judged = fixes.verified.after.change_check
    assert judged is not None
    assert (judged.verdict, judged.train) == ("identical", True)
    steps = fixes.verified.steps
    assert steps is not None
    assert (steps.steps, steps.losses, steps.identical, steps.same_random) == (3, 3, True, True), steps.text
    assert "3 steps of both scripts from one seed: losses, parameters" in printed("fix", state)
    (fields,) = json_of("fix", state)["breaks"][0]["fixes"]
    assert fields["steps"]["loss_difference"] == 0


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_a_region_of_a_script_is_swept(tmp_path: Path, shared_runs: SharedRuns):
    study = load_study("sweep")
    state = StudyState[Any, Any](job(tmp_path, SIZES), SweepOptions(0, (2, 5)), 60)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(study, state, runs, lambda _: None, lambda _: None)
    assert state.refused == ""
    failures = [result.run.failure for result in state.results]
    assert failures
    assert not any(failures), failures
