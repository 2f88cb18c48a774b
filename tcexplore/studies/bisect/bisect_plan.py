"""Up the ladder of layers, until one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from tcexplore.events import Job
from tcexplore.studies.bisect.bisect_result import EAGER, RUNGS, BisectStage, BisectStep
from tcexplore.studies.study_runs import Runs


def ladder(backends: tuple[str, ...], mode: str = "default") -> tuple[BisectStage, ...]:
    """The rungs that a torch with these backends has (none: all), with one more for a `mode` but the default."""
    known = tuple(rung for rung in RUNGS if rung.backend is None or not backends or rung.backend in backends)
    if mode == "default":
        return known
    return (
        *known,
        BisectStage(f"Inductor's mode {mode}", "inductor", mode=mode, adds=f"what mode {mode} does besides"),
    )


async def climb(job: Job, rungs: tuple[BisectStage, ...], runs: Runs, within: float) -> AsyncIterator[BisectStep]:
    """Each rung as it is known, the last one being the first that fails. Eager is seen to in the run of the next."""
    for rung in rungs:
        if rung.backend is None:
            continue
        run = (await runs.run(_at(job, rung), within)).snapshot
        if rung is rungs[1]:
            below = BisectStep(EAGER, run)
            yield below
            if below.fails:
                return
        step = BisectStep(rung, run)
        yield step
        if step.fails:
            return


def _at(job: Job, rung: BisectStage) -> Job:
    config = replace(job.config, backend=rung.backend or "eager", fuse=rung.fuse, mode=rung.mode)
    return replace(job, config=config, time_for=0.0, graph_scripts=True)
