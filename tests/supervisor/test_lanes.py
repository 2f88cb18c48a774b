"""Runs beside the file's own: on the same workers, its timing held meanwhile, nothing left of them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tcexplore.events import Event, Failed, Finished, Job, Output, PairsMeasured, PhaseStarted, Standby
from tcexplore.session.run_figures import Cell
from tcexplore.studies.study_runs import Runs as StudyRuns
from tests.supervisor.runs import PATIENCE_S, Runs, alive, printed, until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

GOOD = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
ENDLESS = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1)\n"


def job(source: str) -> Job:
    return Job(run=1, file="/tmp/beside.py", source=source, time_for=0.0, examine=False)


def pairs(events: list[Event]) -> int:
    return sum(isinstance(event, PairsMeasured) for event in events)


async def test_the_timing_of_the_files_run_waits_for_a_run_beside_it(runs: Runs) -> None:
    number = runs.submit(GOOD, time_for=None)
    await runs.wait_for(PairsMeasured)
    held: list[int] = []

    def progress(snapshot: object) -> None:
        if getattr(snapshot, "phase", "") in ("dynamo", "inductor", "compiler"):
            held.append(pairs(runs.events))

    runs.supervisor.hold(True)
    async with StudyRuns(runs.supervisor.beside, progress) as beside:
        first, second = [Cell((await beside.run(job(GOOD), PATIENCE_S)).snapshot) for _ in (1, 2)]
    assert (first.why, second.why) == ("", "")
    assert held[0] == held[-1], "pairs were measured while another run compiled"
    runs.supervisor.hold(False)
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: pairs(runs.events) > held[-1])
    assert [e for e in runs.events if isinstance(e, Failed | Finished) and e.run == number] == []


async def test_what_runs_beside_ends_with_its_lane_and_nothing_else_does(runs: Runs) -> None:
    runs.submit(GOOD, time_for=None)
    await runs.wait_for(PairsMeasured)
    heard: list[Event] = []
    lane = runs.supervisor.beside(heard.append)
    await lane.start()
    assert isinstance(heard[0], Standby)
    lane.submit(job(ENDLESS))
    await until(lambda: any(isinstance(event, Output) for event in heard))
    pid = int(printed(heard))
    before = pairs(runs.events)
    await lane.close()
    assert not alive(pid)
    await until(lambda: pairs(runs.events) > before)
    assert any(isinstance(event, PhaseStarted) for event in heard)
