"""The ladder names the layer that a seeded fault is in, and its reproducer shows the fault without tcexplore."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.report.text.blame import print_blame
from tcexplore.studies.bisect.bisect_json import blame as fields
from tcexplore.studies.bisect.bisect_plan import climb, ladder
from tcexplore.studies.bisect.bisect_result import BisectStep, culprit
from tcexplore.studies.bisect.reproducer import write
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tests.studies.faults import FAULTS, LOWERING
from tests.studies.playing import JOB, MACHINE, Playback, failed


async def climbed(story: Callable[[ev.Job], list[ev.Event]], mode: str = "default") -> list[BisectStep]:
    async with Runs(lambda emit: Playback(emit, story)) as runs:
        return [step async for step in climb(JOB, ladder(MACHINE.backends, mode), runs, 5.0)]


GOOD = [ev.Accuracy(verdict="as accurate as eager"), ev.Finished()]


async def test_each_rung_has_one_layer_more_and_modes_come_last():
    steps = await climbed(lambda _: GOOD, "max-autotune")
    said = [(step.rung.backend, step.run.config.fuse, step.run.config.mode) for step in steps[1:]]
    assert said == [
        ("eager", True, "default"), ("aot_eager", True, "default"), ("inductor", False, "default"),
        ("inductor", True, "default"), ("inductor", True, "max-autotune"),
    ]  # fmt: skip
    assert culprit(tuple(steps)) is None


@pytest.mark.parametrize(
    ("event", "layer"),
    [
        (failed(), "AOTAutograd"),
        (ev.Accuracy(verdict="less accurate than eager"), "AOTAutograd"),
        (replace(failed(), stage="eager", blame="user"), "your own code"),
    ],
)
async def test_nothing_is_run_above_the_first_rung_that_fails(event: ev.Event, layer: str):
    def story(job: ev.Job) -> list[ev.Event]:
        breaks = job.config.backend == "aot_eager" or layer == "your own code"
        return [event, ev.Finished()] if breaks else GOOD

    steps = await climbed(story)
    guilty = culprit(tuple(steps))
    assert guilty is steps[-1]
    assert guilty.rung.layer == layer
    page = StringIO()
    print_blame(steps, MACHINE, stream=page)
    assert ("To blame: AOTAutograd" in page.getvalue()) == (layer == "AOTAutograd")
    assert fields(steps, MACHINE, written="", stopped=False)["layer"] == layer


def job(folder: Path, source: str) -> ev.Job:
    file = folder / "model.py"
    file.write_text(source)
    return ev.Job(run=1, file=str(file), source=source)


@pytest.mark.torch
def test_seeded_faults_are_found_in_their_layer(tmp_path: Path):
    async def found() -> dict[str, str]:
        layers = {}
        async with Runs(Supervisor) as runs:
            machine = await runs.machine(60)
            assert machine is not None
            rungs = ladder(machine.backends)
            for layer, source in FAULTS.items():
                steps = [step async for step in climb(job(tmp_path, source), rungs, runs, 60)]
                guilty = culprit(tuple(steps))
                layers[layer] = guilty.rung.layer if guilty else ""
        return layers

    assert asyncio.run(found()) == {layer: layer for layer in FAULTS}


@pytest.mark.torch
def test_the_reproducer_shows_the_fault_by_itself(tmp_path: Path):
    source = LOWERING.replace("inputs = (torch.randn(8, 16),)", "")
    asked = job(tmp_path, source)
    asked = replace(asked, config=replace(asked.config, inputs=("x=f32[8,16]",)))

    async def guilty() -> tuple[BisectStep, ev.Standby | None]:
        async with Runs(Supervisor) as runs:
            rungs = tuple(rung for rung in ladder(()) if rung.backend in (None, "inductor"))
            steps = [step async for step in climb(asked, rungs, runs, 60)]
            return steps[-1], await runs.machine(60)

    step, machine = asyncio.run(guilty())
    written = write(str(tmp_path / "repro"), asked, step, machine)
    assert [path.name for path in written] == ["model.py", "repro.py", "fx_graph_0_0_0.py", "README.md"]
    done = subprocess.run(
        [sys.executable, "repro.py"], cwd=tmp_path / "repro", capture_output=True, text=True, check=False
    )
    assert "Tensor-likes are not close" in done.stderr, done.stderr
