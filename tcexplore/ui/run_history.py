"""The runs of the app on disk: those of earlier starts are listed and read, those of this start are stored."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tcexplore.files import NotWrittenError
from tcexplore.run_store import RunStore, StoredRuns, read_run
from tcexplore.session import Session, Snapshot
from tcexplore.session.history import StoredRun
from tcexplore.ui.background_task import run_in_background


class RunHistory:
    """Reads and writes in a thread. A folder that cannot be written costs only the history of this start."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._files: dict[int, Path | None] = {}
        """The file of each stored run, by its number."""
        self._over: set[int] = set()
        """Runs that were stored after their end."""
        self._writable = True

    async def earlier_runs(self) -> StoredRuns:
        """Return the figures of the runs of earlier starts."""
        return await run_in_background(self._store.runs)

    async def read(self, stored: StoredRun) -> Snapshot:
        """Return the snapshot of a run; raise `UnreadableRunError` if its file is damaged."""
        return await run_in_background(partial(read_run, stored))

    async def store(self, session: Session, *, newest: bool) -> None:
        """Store the runs that are over and have a result, with `newest` also the newest one as it is now."""
        await run_in_background(partial(self._store_all, session.runs, newest))

    def _store_all(self, runs: tuple[Snapshot, ...], newest: bool) -> None:
        for run in runs if newest else runs[:-1]:
            own = not run.past and not run.trace and run.run not in self._over
            if self._writable and own and (run.compiled or run.complete or run.failure is not None):
                try:
                    self._files[run.run] = self._store.write(run, self._files.get(run.run))
                except (NotWrittenError, OSError):
                    self._writable = False
                if run is not runs[-1]:
                    self._over.add(run.run)
