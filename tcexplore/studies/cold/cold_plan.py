"""Two runs, the first with empty compile caches and the second with what the first left there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.scratch import scratch
from tcexplore.studies.study_runs import Runs, Say

NAMES = ("cold", "warm")


async def cold_and_warm(job: Job, runs: Runs, say: Say, within: float) -> AsyncGenerator[RunFigures, None]:
    """The cold run, then the warm one, neither timed. Their caches are a folder of their own, gone afterwards."""
    async with scratch(runs, "caches") as folder:
        for name in NAMES:
            say(f"{name} compile")
            yield RunFigures(
                (await runs.run(replace(job, caches=folder, time_for=0.0, examine=False), within)).snapshot
            )
