"""A file's calls as they are, then under each change that might spare recompiles, each in a worker of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.session.storm import AS_IT_IS, PASSES, Treatment, Trial, treatments
from tcexplore.study.runs import Runs, Say


async def trials(job: Job, runs: Runs, say: Say, within: float, buckets: tuple[str, ...] = ()) -> AsyncIterator[Trial]:
    """The storm first, then what applies to it; a run that fails or takes more than `within` seconds says so."""
    say("the calls as they are")
    first = await _trial(job, AS_IT_IS, runs, within)
    yield first
    found = treatments(first.run, buckets)
    enough = False
    for number, treatment in enumerate(found, 1):
        if treatment.several and enough:
            continue
        say(f"{number} of {len(found)}: {treatment.name}")
        trial = await _trial(job, treatment, runs, within)
        enough = enough or (not trial.recompiles and trial.run.failed is None)
        yield trial


async def _trial(job: Job, treatment: Treatment, runs: Runs, within: float) -> Trial:
    treated = replace(job, passes=PASSES, time_for=0.0, examine=False, config=treatment.change(job.config))
    return Trial(treatment, (await runs.run(treated, within)).snapshot)
