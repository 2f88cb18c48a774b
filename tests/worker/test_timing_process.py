"""Timing in other processes, in a real worker that forks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tcexplore.events import FactMissing, Finished, TimingEstimate
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


async def test_no_process_outlives_its_run(runs: Runs, tmp_path: Path) -> None:
    names = tmp_path / "pids"
    program = f"import os\nopen({str(names)!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + MLP
    await runs.run(program, time_for=1.0, timing_processes=1)
    pids = [int(line) for line in names.read_text().split()]
    assert len(pids) == 2
    await until(lambda: not any(map(alive, pids)))
