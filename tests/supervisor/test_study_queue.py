"""Study queues share workers with the runs of the file, pause their timing, and leave no process behind."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial

import pytest

from tcexplore.events import Config, Event, Failed, Finished, Job, Output, PairsMeasured, PhaseStarted, Standby
from tcexplore.events.commands import PauseTiming, Retarget
from tcexplore.model_python import OWN_PYTHON
from tcexplore.session.economics import RunFigures
from tcexplore.studies.runs import Runs as StudyRuns
from tcexplore.supervisor.supervisor import StudyQueue
from tests.supervisor.runs import PATIENCE_S, Runs, alive, printed, until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

GOOD = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
COLD = "import sys\nprint('torch._inductor.compile_fx' in sys.modules, flush=True)\n" + GOOD
LAYERS = """
import torch
from torch import nn
model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(8)))
inputs = (torch.ones(2, 8),)
"""
ENDLESS = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1)\n"


def job(source: str) -> Job:
    return Job(run=1, file="/tmp/study.py", source=source, time_for=0.0, examine=False)


def pairs(events: list[Event]) -> int:
    return sum(isinstance(event, PairsMeasured) for event in events)


def phases(events: list[Event]) -> list[str]:
    return [event.phase for event in events if isinstance(event, PhaseStarted)]


async def test_timing_pauses_while_a_study_runs(runs: Runs) -> None:
    number = runs.submit(GOOD, time_for=None)
    await runs.wait_for(PairsMeasured)
    pairs_so_far: list[int] = []

    def progress(snapshot: object) -> None:
        if getattr(snapshot, "phase", "") in ("dynamo", "inductor", "compiler"):
            pairs_so_far.append(pairs(runs.events))

    runs.supervisor.send(PauseTiming(paused=True))
    async with StudyRuns(runs.supervisor.study_queue, progress) as study:
        first, second = [RunFigures((await study.run(job(GOOD), PATIENCE_S)).snapshot) for _ in (1, 2)]
    assert (first.failure, second.failure) == ("", "")
    assert pairs_so_far[0] == pairs_so_far[-1], "pairs were measured while another run compiled"
    runs.supervisor.send(PauseTiming(paused=False))
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: pairs(runs.events) > pairs_so_far[-1])
    assert [e for e in runs.events if isinstance(e, Failed | Finished) and e.run == number] == []


async def test_timing_of_a_study_waits_for_code_that_the_run_of_the_file_generates(runs: Runs) -> None:
    runs.submit(LAYERS, time_for=None, retargetable=True)
    await runs.wait_for(PairsMeasured)
    runs.supervisor.send(PauseTiming(paused=True))
    events: list[Event] = []
    queue = runs.supervisor.study_queue(events.append)
    await queue.start()
    queue.submit(replace(job(GOOD), time_for=None))
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: pairs(events) > 0)
        runs.supervisor.send(Retarget(target="h100"))
        await until(lambda: phases(runs.events)[-1] == "switching")
        during: list[int] = []

        def note_pairs() -> bool:
            during.append(pairs(events))
            return phases(runs.events)[-1] != "switching"

        await until(note_pairs)
        assert during[-1] - during[0] <= 1, "pairs of the study were measured while the code was generated"
        await until(lambda: pairs(events) > during[-1] + 1)
    runs.supervisor.send(PauseTiming(paused=False))
    await queue.close()


async def test_closing_a_study_queue_ends_only_its_run(runs: Runs) -> None:
    runs.submit(GOOD, time_for=None)
    await runs.wait_for(PairsMeasured)
    events: list[Event] = []
    queue = runs.supervisor.study_queue(events.append)
    await queue.start()
    assert isinstance(events[0], Standby)
    queue.submit(job(ENDLESS))
    await until(lambda: any(isinstance(event, Output) for event in events))
    pid = int(printed(events))
    before = pairs(runs.events)
    await queue.close()
    assert not alive(pid)
    await until(lambda: pairs(runs.events) > before)
    assert any(isinstance(event, PhaseStarted) for event in events)


async def test_a_cold_job_of_a_study_imports_the_compiler_itself(runs: Runs) -> None:
    runs.submit(GOOD, time_for=0.0)
    await runs.wait_for(Finished)
    cold = replace(job(COLD), cold=True, config=Config(backend="eager"))
    async with StudyRuns(partial(StudyQueue, runs.supervisor.study_queue, OWN_PYTHON)) as study:
        outcomes = [(await study.run(replace(cold, cold=is_cold), PATIENCE_S)).snapshot for is_cold in (True, False)]
    assert [run.failure for run in outcomes] == [None, None]
    assert [printed(list(run.output)) for run in outcomes] == ["False\n", "True\n"]
