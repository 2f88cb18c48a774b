"""An engine that runs a script as each of several ranks on every save."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence

from tcexplore.traced_job import TracedJob
from tcexplore.traces.followed_trace import FollowedTrace
from tcexplore.ui.engine import Deliver
from tcexplore.ui.follow_engine import FollowEngine
from tcexplore.watch import Watch


class SavedRanksEngine(FollowEngine):
    """Starts a command again when the script, or a file of the user that its ranks compiled, is saved."""

    def __init__(self, file: str, command: Sequence[str], rank: int | None) -> None:
        self._file = os.path.abspath(file)
        self._command = tuple(command)
        self._launches: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._files: frozenset[str] = frozenset()
        self._job = TracedJob(command, tempfile.mkdtemp(prefix="tcexplore-ranks-"))
        super().__init__(FollowedTrace([self._job.folder]), rank, self._job)

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run of all ranks; from then on every save begins one."""
        self._watch = Watch(self._file)
        await asyncio.to_thread(self._job.start, capture=True)
        await super().start(deliver)
        self._watching = asyncio.create_task(self._follow_saves())
        self._launches = asyncio.create_task(self._launch_on_change())

    def rerun(self) -> bool:
        """Run all ranks again."""
        self._changed.set()
        return True

    def stop_run(self) -> None:
        """End all ranks."""
        asyncio.get_running_loop().run_in_executor(None, self._job.end)

    async def _follow_saves(self) -> None:
        async for _ in self._watch.changes():
            self._changed.set()

    async def _launch_on_change(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._end_job()
            self._job = TracedJob(self._command, tempfile.mkdtemp(prefix="tcexplore-ranks-"))
            await asyncio.to_thread(self._job.start, capture=True)
            self._restart(FollowedTrace([self._job.folder]), self._job)

    async def _show_ranks(self) -> None:
        await super()._show_ranks()
        files = self.user_files
        if files != self._files:
            self._files = files
            self._watch.set_modules(files)

    async def _end_job(self) -> None:
        """End the ranks and stop following them; their trace is in memory."""
        await self._stop_following()
        await asyncio.to_thread(self._job.end)
        await asyncio.to_thread(shutil.rmtree, self._job.folder, ignore_errors=True)

    async def close(self) -> None:
        """End everything."""
        for task in (self._watching, self._launches) if self._launches is not None else ():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._end_job()
