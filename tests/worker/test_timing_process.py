"""Timing in other processes, in a real worker that forks."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tcexplore.events import FactMissing, Finished, Job, TimingEstimate
from tcexplore.worker import timing_process
from tcexplore.worker.timing_process import PROCESSES, TimingProcesses, TimingSeed
from tests.supervisor.runs import MLP, Runs, alive, only, until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(sys.platform != "linux", reason="runs are not forked"),
]

FAILS_WHEN_IMPORTED_AGAIN = """\
import pathlib
marker = pathlib.Path({marker!r})
if marker.exists():
    raise RuntimeError("imported again")
marker.touch()
"""


async def test_a_program_is_timed_in_other_processes_that_keep_their_memory(runs: Runs) -> None:
    events = await runs.run(MLP, time_for=1.0, timing_processes=2)
    assert isinstance(events[-1], Finished), events[-1]
    first, *_, last = only(events, TimingEstimate)
    assert (first.processes_timed, first.processes_to_come) == (1, 2)
    assert "Of one process so far: others may differ by more than the interval" in first.notes
    # The second other process may come too late on a slow machine.
    assert 2 <= len(last.processes) <= 3
    assert {process.memory for process in last.processes} == {"memory kept"}
    assert last.pairs == sum(process.pairs for process in last.processes)
    assert last.processes_to_come == 0
    assert all(process.eager_page_faults is not None for process in last.processes)


async def test_a_process_that_fails_costs_only_itself(runs: Runs, tmp_path: Path) -> None:
    program = FAILS_WHEN_IMPORTED_AGAIN.format(marker=str(tmp_path / "imported")) + MLP
    events = await runs.run(program, time_for=1.0, timing_processes=1)
    assert isinstance(events[-1], Finished), events[-1]
    (missing,) = [event for event in only(events, FactMissing) if event.fact == "timing in another process"]
    assert missing.reason == "RuntimeError: imported again"
    *_, last = only(events, TimingEstimate)
    assert len(last.processes) == 1
    assert last.verdict != "measuring"


async def test_a_process_has_the_environment_of_the_user(runs: Runs, tmp_path: Path) -> None:
    names = tmp_path / "names"
    program = f"import os\nopen({str(names)!r}, 'a').write(f'{{sorted(os.environ)}}\\n')\n" + MLP
    await runs.run(program, time_for=1.0, timing_processes=1)
    own, other = names.read_text().splitlines()
    assert own == other


async def test_other_processes_take_code_from_the_caches_of_torch(runs: Runs, tmp_path: Path) -> None:
    """The run itself does not: what is cached is not compiled, so there would be nothing to show."""
    names = tmp_path / "values"
    reads = "c.fx_graph_cache, f.enable_autograd_cache"
    program = "import torch._functorch.config as f, torch._inductor.config as c\n"
    program += f"open({str(names)!r}, 'a').write(f'{{({reads})}}\\n')\n"
    await runs.run(program + MLP, time_for=1.0, timing_processes=1)
    assert names.read_text().splitlines() == ["(False, False)", "(True, True)"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("single", [False, True])
async def test_a_program_on_a_gpu_is_timed_in_other_processes(tmp_path: Path, *, single: bool) -> None:
    runs = Runs(tmp_path, single=single)
    await runs.supervisor.start()
    try:
        program = f"{MLP}model, inputs = model.cuda(), (inputs[0].cuda(),)\n"
        events = await runs.run(program, time_for=10.0, timing_processes=PROCESSES)
    finally:
        await runs.supervisor.close()
    assert isinstance(events[-1], Finished), events[-1]
    assert not [event for event in only(events, FactMissing) if event.fact == timing_process.FACT]
    last = only(events, TimingEstimate)[-1]
    assert last.processes_timed >= 2
    assert {process.memory for process in last.processes} == {"as the system does"}


async def test_only_a_run_by_itself_is_timed_in_other_processes_on_a_gpu_with_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing_process, "lacks_room", lambda _: "")
    job = Job(run=1, file="model.py", source="", time_for=3.0)
    reasons: list[str] = []
    with socket.socket() as unused:
        seed = TimingSeed(unused)

    def plan(job: Job, pair_s: float = 0.01) -> int:
        processes = TimingProcesses(
            seed, job, grad=False, mutates=False, device=torch.device("cuda"), limit_s=60.0, report=reasons.append
        )  # fmt: skip
        states = processes.plan(pair_s)
        assert set(states) <= {"as the system does"}
        return len(states)

    assert plan(job) == PROCESSES
    assert plan(replace(job, timing_processes=2)) == 0, "a study"
    assert plan(replace(job, time_for=0.5)) == plan(job, pair_s=2.0) == 0
    monkeypatch.setattr(timing_process, "lacks_room", lambda _: "no room")
    assert (plan(job), reasons) == (0, ["no room"])


async def test_no_process_outlives_its_run(runs: Runs, tmp_path: Path) -> None:
    names = tmp_path / "pids"
    program = f"import os\nopen({str(names)!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + MLP
    await runs.run(program, time_for=1.0, timing_processes=1)
    pids = [int(line) for line in names.read_text().split()]
    assert len(pids) == 2
    await until(lambda: not any(map(alive, pids)))


async def test_the_cpu_time_of_all_processes_is_that_of_the_front_end(runs: Runs, tmp_path: Path) -> None:
    """So that none of them counts as another program."""
    notes = tmp_path / "notes"
    program = f"""\
import os
from tcexplore.worker import process_setup
with open(f"/proc/{{os.getppid()}}/stat") as stat:
    ended = stat.read().rpartition(")")[2].split()[13]
with open({str(notes)!r}, "a") as notes:
    print(process_setup.front_end, ended, file=notes)
"""
    await runs.run(program + MLP, time_for=2.0, timing_processes=PROCESSES)
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert {int(front_end) for front_end, _ in lines} == {os.getpid()}
    assert len(lines) >= 3
    assert int(lines[-1][1]) > 0, "the processes before the last one have ended"
