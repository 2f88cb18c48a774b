"""The base of engines that show ranks of traces: nothing is executed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from tcexplore.events import Job
from tcexplore.events.commands import RunCommand
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Emit, Runner
from tcexplore.ui.engine import Deliver


class RankEngine(ABC):
    """Shows each rank as a run."""

    def __init__(self, rank: int | None) -> None:
        """`rank` is shown first, the lowest one if None."""
        self._first = rank
        self._reading: asyncio.Task[None] | None = None
        self._runs: dict[int, int] = {}
        self.job: Job | None = None
        self.pythons: tuple[ModelPython, ...] = ()
        self.waiting: tuple[str, ...] = ()

    @property
    def runs(self) -> dict[int, int]:
        """The runs of the ranks that were read, by rank."""
        return self._runs

    @abstractmethod
    async def start(self, deliver: Deliver) -> None:
        """Begin to read the first rank."""

    @abstractmethod
    def load(self, rank: int) -> bool:
        """Read a rank as a new run; return whether the trace has this rank."""

    # ---- what a trace cannot do

    def rerun(self) -> bool:
        """Return False: a trace is not run."""
        return False

    def update(self, run: Snapshot) -> None:  # noqa: B027  the interface of all engines
        """Do nothing: no run of a trace ever needs the engine again."""

    def stop_run(self) -> None:  # noqa: B027  the interface of all engines
        """Do nothing: a trace is not run."""

    def configure(  # noqa: B027  the interface of all engines
        self, mode: str, backend: str, dynamic: bool | None, further: tuple[str, ...] | None = None
    ) -> None:
        """Do nothing: a trace is not run."""

    def open_file(self, file: str) -> None:  # noqa: B027  the interface of all engines
        """Do nothing: a trace is not run."""

    def retarget(self, target: str, *, known: bool) -> bool:  # noqa: ARG002  the interface of all engines
        """Return whether the run has code for the target: a trace has no graphs to lower."""
        return known

    def send(self, command: RunCommand) -> bool:  # noqa: ARG002  the interface of all engines
        """Return that no run takes commands."""
        return False

    def study_queue(self, emit: Emit) -> Runner:
        """Raise `NotImplementedError`: the app offers no study of a trace."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
