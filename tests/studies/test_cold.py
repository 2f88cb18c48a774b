"""A cold run and a warm one share a temporary folder, which is always removed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.model_python import OWN_PYTHON
from tcexplore.session.economics import RunFigures
from tcexplore.studies.cold import STUDY, LookupCounts, SpanPair, lookup_counts, span_pairs
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.supervisor.supervisor import StudyQueue
from tests.studies.playback import played
from tests.studies.stories import cold_story, exists
from tests.supervisor.runs import Runs as SharedRuns

SOURCE = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
inputs = (torch.ones(4, 8),)
"""


async def test_both_runs_use_one_folder_that_is_removed():
    state, player = await played("cold", cold_story)
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
    async with Runs(partial(StudyQueue, shared_runs.supervisor.study_queue, OWN_PYTHON)) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    cold, warm = state.results
    assert (cold.failure, warm.failure) == ("", "")
    assert {side.run.compiler_loaded for side in (cold, warm)} == {None}, "each is in a new process"
    assert {lookup.outcome for lookup in cold.run.cache_lookups} <= {"miss", "bypass"}
    assert any(lookup.outcome == "hit" for lookup in warm.run.cache_lookups)
    assert (cold.first_call_s or 0.0) > (warm.first_call_s or 0.0)
