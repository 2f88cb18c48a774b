"""A folder for the runs of one study, gone with them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tcexplore.studies.study_runs import Runs


@asynccontextmanager
async def scratch(runs: Runs, kind: str) -> AsyncGenerator[str, None]:
    """An empty folder. It is removed once the last run has ended, also when the study is cancelled anywhere in it."""
    # Not in a thread: cancelled while it is made there, nobody would know of the folder.
    folder = tempfile.mkdtemp(prefix=f"tcexplore-{kind}-")
    try:
        yield folder
    finally:
        try:
            # A run that was cut off still writes there.
            await runs.end()
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
