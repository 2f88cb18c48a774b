"""A file's calls as they are, then under each change that might spare recompiles, each in a worker of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.studies.recompiles.recompiles_result import PASSES, UNCHANGED, Trial, Variant, variants
from tcexplore.studies.scratch import scratch
from tcexplore.studies.study_runs import Runs, Say


async def trials(
    job: Job, runs: Runs, say: Say, within: float, buckets: tuple[str, ...] = ()
) -> AsyncGenerator[Trial, None]:
    """The storm first, then what applies to it; a run that fails or takes more than `within` seconds says so.

    None finds the kernels that another one compiled: each has a folder of its own for them, gone afterwards.
    """
    async with scratch(runs, "storm") as folder:
        say("the calls as they are")
        first = await _trial(job, UNCHANGED, runs, within, os.path.join(folder, "0"))
        yield first
        found = variants(first.run, buckets)
        enough = False
        for number, treatment in enumerate(found, 1):
            if treatment.several and enough:
                continue
            say(f"{number} of {len(found)}: {treatment.name}")
            trial = await _trial(job, treatment, runs, within, os.path.join(folder, str(number)))
            enough = enough or (not trial.recompiles and trial.run.failure is None)
            yield trial


async def _trial(job: Job, treatment: Variant, runs: Runs, within: float, kernels: str) -> Trial:
    treated = replace(
        job, passes=PASSES, time_for=0.0, examine=False, cache_dir=kernels, config=treatment.change(job.config)
    )
    return Trial(treatment, (await runs.run(treated, within)).snapshot)
