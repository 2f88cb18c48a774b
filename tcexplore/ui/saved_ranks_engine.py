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
    """Runs a command again when the script, or a file of the user that its ranks compiled, is saved.

    The command imports torch, then waits for a line on stdin: one is kept waiting for the next save.
    """

    in_turns = True

    def __init__(self, file: str, command: Sequence[str], rank: int | None) -> None:
        self._file = os.path.abspath(file)
        self._command = tuple(command)
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._files: frozenset[str] = frozenset()
        self._standby: TracedJob | None = None
        self._job = self._new_job()
        super().__init__(FollowedTrace([self._job.folder]), rank, self._job)

    def _new_job(self) -> TracedJob:
        """Return a job with a new folder, not yet started."""
        return TracedJob(self._command, tempfile.mkdtemp(prefix="tcexplore-ranks-"))

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run of all ranks; from then on every save begins one."""
        self._watch = Watch(self._file)
        self._job.start(capture=True, held=True)
        self._job.release()
        await super().start(deliver)
        self._tasks = [asyncio.create_task(self._follow_saves()), asyncio.create_task(self._run_on_change())]

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

    async def _run_on_change(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._stop_following()
            await asyncio.to_thread(_remove, self._job)
            self._job = await self._ready_job()
            self._job.release()
            self._restart(FollowedTrace([self._job.folder]), self._job)

    async def _ready_job(self) -> TracedJob:
        """Return the job that waits, or a new one if there is none, or if it has ended."""
        standby, self._standby = self._standby, None
        if standby is not None and standby.status() is None:
            return standby
        if standby is not None:
            await asyncio.to_thread(_remove, standby)
        job = self._new_job()
        job.start(capture=True, held=True)
        return job

    async def _show_ranks(self) -> None:
        await super()._show_ranks()
        if self._standby is None and self._job.status() is not None:
            self._standby = self._new_job()
            self._standby.start(capture=True, held=True)
        files = self.user_files
        if files != self._files:
            self._files = files
            self._watch.set_modules(files)

    async def close(self) -> None:
        """End everything. The traces are removed; what is shown of them is in memory."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop_following()
        for job in (self._job, self._standby):
            if job is not None:
                await asyncio.to_thread(_remove, job)


def _remove(job: TracedJob) -> None:
    """End a job, and remove its trace."""
    job.end()
    shutil.rmtree(job.folder, ignore_errors=True)
