"""A cold run and a warm one in a folder of their own, which is gone afterwards however it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.studies.cold.cold_plan import cold_and_warm
from tcexplore.studies.cold.cold_result import Both, LookedUp, looked_up, side_by_side
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tests.studies.playing import JOB, Playback

SOURCE = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
inputs = (torch.ones(4, 8),)
"""


def spans(seconds: float) -> Sequence[ev.Event]:
    return [
        ev.PhaseTimed(name="codegen", seconds=seconds / 2, graph="0/0", depth=1),
        ev.PhaseTimed(name="tiny", seconds=seconds / 1000, graph="0/0", depth=1),
        ev.PhaseTimed(name="compile", seconds=seconds, graph="0/0", depth=0),
    ]


def story(job: ev.Job) -> Sequence[ev.Event]:
    cold = job.run == 1
    outcome = "miss" if cold else "hit"
    return [
        *(spans(8.0) if cold else spans(1.0)[-1:]), ev.CallMade(index=0, variant="compiled", seconds=9.0, compiles=1),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome), ev.Finished(),
    ]  # fmt: skip


def there(folder: str) -> bool:
    return Path(folder).exists()


async def test_both_runs_use_one_folder_that_is_gone_afterwards():
    players: list[Playback] = []

    def runner(emit):  # noqa: ANN001, ANN202
        players.append(Playback(emit, story))
        return players[0]

    async with Runs(runner) as runs:
        cells = [cell async for cell in cold_and_warm(JOB, runs, lambda _: None, 5.0)]
    (folder,) = {job.caches for job in players[0].jobs}
    assert folder
    assert not there(folder)
    assert side_by_side(cells[0].run, cells[1].run) == (
        Both(0, "0/0 compile", 8.0, 1.0), Both(1, "codegen", 4.0, None),
    )  # fmt: skip
    assert looked_up(cells[0].run, cells[1].run) == (
        LookedUp("fx_graph", "miss", "", 1, 0), LookedUp("fx_graph", "hit", "", 0, 1),
    )  # fmt: skip


@pytest.mark.torch
async def test_the_second_start_finds_what_the_first_one_left(tmp_path: Path):
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=SOURCE)
    async with Runs(Supervisor) as runs:
        cold, warm = [cell async for cell in cold_and_warm(job, runs, lambda _: None, 120.0)]
    assert (cold.failure, warm.failure) == ("", "")
    assert {used.outcome for used in cold.run.cache_lookups} <= {"miss", "bypass"}
    assert any(used.outcome == "hit" for used in warm.run.cache_lookups)
    assert (cold.first_call_s or 0.0) > (warm.first_call_s or 0.0)
