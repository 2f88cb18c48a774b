"""One dimension of a file's inputs at several sizes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.study_runs import Runs
from tcexplore.studies.sweep.sweep_result import DYNAMIC, STATIC, WALKS, SweepStep


def plan(job: Job, dim: int, sizes: tuple[int, ...]) -> tuple[tuple[str, int, Job], ...]:
    """Form, size and job of each step: the walks over all sizes, then each size compiled for itself, static and with
    `dynamic=True`, eager beside both."""
    config = replace(job.config, dim=dim)

    def at(dynamic: bool | None, over: tuple[int, ...]) -> Job:
        return replace(job, config=replace(config, dynamic=dynamic, sizes=over))

    walks = [(form, 0, replace(at(given, sizes), time_for=0.0, examine=False)) for form, given in WALKS.items()]
    forms = [(form, size) for size in sizes for form in (STATIC, DYNAMIC)]
    return (*walks, *((form, size, at(form == DYNAMIC, (size,))) for form, size in forms))


async def steps(plan: tuple[tuple[str, int, Job], ...], runs: Runs, within: float) -> AsyncIterator[SweepStep]:
    """Each step as it is finished; one that fails or takes more than `within` seconds says so, the rest goes on."""
    for form, size, job in plan:
        yield SweepStep(form, size, RunFigures((await runs.run(job, within)).snapshot))
