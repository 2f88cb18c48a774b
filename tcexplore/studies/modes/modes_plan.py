"""Every mode × backend × dynamic of one file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from tcexplore.events import Job, Standby
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.study_runs import Runs

WITH_MODES = "inductor"
"""The one backend that torch.compile's modes mean something to."""

ON_A_CPU = ("eager", "aot_eager", "inductor")
ON_A_GPU = (*ON_A_CPU, "cudagraphs")
"""Compared when nothing is said, as far as this torch lists them."""


def plan(
    job: Job,
    machine: Standby,
    modes: Sequence[str] = (),
    backends: Sequence[str] = (),
    dynamic: Sequence[bool | None] = (False, True),
) -> tuple[Job, ...]:
    """The job of each cell; without `modes` those that this torch lists, without `backends` the usual ones."""
    usual = ON_A_CPU if machine.device == "cpu" else ON_A_GPU
    chosen = backends or tuple(backend for backend in usual if backend in machine.backends) or (WITH_MODES,)
    pairs = [pair for backend in chosen for pair in _modes(backend, modes or machine.modes or ("default",))]
    return tuple(
        replace(job, config=replace(job.config, backend=backend, mode=mode, dynamic=shapes))
        for (backend, mode), shapes in product(pairs, dynamic)
    )


def _modes(backend: str, modes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((backend, mode) for mode in (modes if backend == WITH_MODES else ("default",)))


UNKNOWN = Standby(torch="", python="", device="cpu", seconds=0.0, modes=("default",), backends=(WITH_MODES,))
"""Where no worker got ready: one cell is tried, and says why."""


async def cells(jobs: Iterable[Job], runs: Runs, within: float, folder: str) -> AsyncIterator[RunFigures]:
    """Each cell as it is finished; one that fails or takes more than `within` seconds says so, the rest goes on.

    None finds the kernels that another one compiled: each has a folder of its own for them in `folder`.
    """
    for job in jobs:
        config = job.config
        own = os.path.join(folder, f"{config.backend}-{config.mode}-{config.dynamic}")
        yield RunFigures((await runs.run(replace(job, cache_dir=own), within)).snapshot)
