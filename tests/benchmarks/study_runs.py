"""Runs of a study in a folder of their own, for benchmarks that judge many programs one after the other."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator

from tcexplore.studies.runs import Runs
from tcexplore.supervisor import Supervisor


@contextlib.asynccontextmanager
async def study_runs() -> AsyncIterator[tuple[Runs, str]]:
    """Yield the runs and a temporary folder for their model files; end all workers afterwards."""
    supervisor = Supervisor(lambda _: None, prime=False)
    await supervisor.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with Runs(supervisor.study_queue) as runs:
                yield runs, folder
    finally:
        await supervisor.close()
