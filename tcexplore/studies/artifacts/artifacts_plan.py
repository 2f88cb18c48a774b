"""Artifacts saved by one worker and loaded by a second, each with empty caches of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.session import Snapshot
from tcexplore.studies.scratch import scratch
from tcexplore.studies.study_runs import Runs, Say


async def save_and_load(job: Job, runs: Runs, say: Say, within: float) -> AsyncGenerator[Snapshot, None]:
    """The run that saves, then the one that loads; the second is left out where nothing was saved. Everything lies in a
    folder of its own, gone afterwards."""
    plain = replace(job, time_for=0.0, examine=False)
    async with scratch(runs, "artifacts") as folder:
        file = os.path.join(folder, "artifacts")
        say("compiling with empty caches, and saving")
        first = replace(plain, caches=os.path.join(folder, "made"), save_artifacts=file)
        made = (await runs.run(first, within)).snapshot
        yield made
        if made.artifacts_saved is not None and made.artifacts_saved.bytes:
            say("loading in another worker with empty caches")
            second = replace(plain, caches=os.path.join(folder, "loaded"), load_artifacts=file)
            yield (await runs.run(second, within)).snapshot
