"""A cold run and a warm one share a temporary folder, which is always removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.events.inductor_events import CacheOutcome
from tcexplore.session.economics import RunFigures
from tcexplore.studies.cold.cold_study import STUDY, LookupCounts, SpanPair, lookup_counts, span_pairs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.studies.study_runs import Runs
from tests.studies.playback import played
from tests.supervisor.runs import Runs as SharedRuns

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
    outcome: CacheOutcome = "miss" if cold else "hit"
    return [
        *(spans(8.0) if cold else spans(1.0)[-1:]), ev.CallMade(index=0, variant="compiled", seconds=9.0, compiles=1),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome), ev.Finished(),
    ]  # fmt: skip


def exists(folder: str) -> bool:
    return Path(folder).exists()


async def test_both_runs_use_one_folder_that_is_removed():
    state, player = await played("cold", story)
    cold, warm = (result.run for result in state.results)
    (folder,) = {job.caches for job in player.jobs}
    assert folder
    assert not exists(folder)
    assert span_pairs(cold, warm) == (SpanPair(0, "0/0 compile", 8.0, 1.0), SpanPair(1, "codegen", 4.0, None))
    assert lookup_counts(cold, warm) == (
        LookupCounts("fx_graph", "miss", "", 1, 0), LookupCounts("fx_graph", "hit", "", 0, 1),
    )  # fmt: skip


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_the_warm_run_has_the_caches_of_the_cold_one(tmp_path: Path, shared_runs: SharedRuns):
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=SOURCE)
    state: StudyState[None, RunFigures] = StudyState(job, None, 120.0)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    cold, warm = state.results
    assert (cold.failure, warm.failure) == ("", "")
    assert {lookup.outcome for lookup in cold.run.cache_lookups} <= {"miss", "bypass"}
    assert any(lookup.outcome == "hit" for lookup in warm.run.cache_lookups)
    assert (cold.first_call_s or 0.0) > (warm.first_call_s or 0.0)
