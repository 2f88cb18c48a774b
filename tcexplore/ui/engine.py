"""The interface between the app and the engine that watches and runs the model file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tcexplore.events import Event

if TYPE_CHECKING:
    from tcexplore.events import Job
    from tcexplore.events.commands import RunCommand
    from tcexplore.model_python import ModelPython
    from tcexplore.session import Snapshot
    from tcexplore.studies.runs import Emit, Runner  # not before the first frame

Deliver: TypeAlias = "Callable[[Job | Event], None]"


class Engine:
    """Watches a file and runs it on every save. As it is here, it cannot run anything, as for a trace."""

    def __init__(self) -> None:
        self.job: Job | None = None
        """The current job, or else the last one; None before the first run."""
        self.pythons: tuple[ModelPython, ...] = ()
        """The environments to compare; the first runs the file. Empty for a trace."""
        self.waiting: tuple[str, ...] = ()
        """Lines that tell what has to happen before the first run; empty if it begins by itself."""

    @property
    def job_to_end(self) -> str:
        """Name of the user's running job that ends with the app; empty if there is none."""
        return ""

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run; `deliver` gets a `Job` as each run begins, then the run's events."""
        raise NotImplementedError

    def rerun(self) -> bool:
        """Read the file and run it again; return False if there is no program to run."""
        return False

    def update(self, run: Snapshot) -> None:
        """React to new facts about the newest run."""

    def stop_run(self) -> None:
        """End the current run."""

    def configure(self, mode: str, backend: str, dynamic: bool | None, further: tuple[str, ...] | None = None) -> None:
        """Use these arguments of `torch.compile` from now on, and rerun; None keeps the `further` arguments."""

    def compile_name(self, name: str | None) -> None:
        """Compile `name` of the file from now on, and rerun; None for what the file's own rules select."""

    def open_file(self, file: str, target: str = "") -> None:
        """Watch and run another file from now on, without arguments, inputs and name of the current one.

        An empty `target` keeps that of the current file.
        """

    def retarget(self, target: str, *, known: bool) -> bool:  # noqa: ARG002
        """Use `target`, as in `Config.target`, for later runs; unless its code is `known`, generate it now.

        Return whether the current run generates it, from the graphs that it has. Otherwise a new run does.
        """
        return known

    def send(self, command: RunCommand) -> bool:  # noqa: ARG002
        """Send a command to the current run; return False if no run can take it.

        Timing stays paused until each `PauseTiming(paused=True)` is matched by a `PauseTiming(paused=False)`. The
        answer to a `RecompileQuery` is delivered as a `RecompileAnswer`.
        """
        return False

    def study_queue(self, emit: Emit) -> Runner:
        """Return a queue for a study's runs, which share the workers with the file's runs, but don't replace them."""
        raise NotImplementedError

    async def close(self) -> None:
        """End everything; return when no process is left."""
        raise NotImplementedError


class RankEngine(Engine):
    """The base of engines that show ranks of traces, each as a run."""

    def __init__(self, rank: int | None) -> None:
        """`rank` is shown first, the lowest one if None."""
        super().__init__()
        self._first = rank
        self._reading: asyncio.Task[None] | None = None
        self.runs: dict[int, int] = {}
        """The runs of the ranks that were read, by rank."""

    def load(self, rank: int) -> bool:
        """Read a rank as a new run; return whether the trace has this rank."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
