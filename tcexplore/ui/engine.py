"""The interface between the app and the engine that watches and runs the model file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tcexplore.events import Event

if TYPE_CHECKING:
    from tcexplore.events import Job
    from tcexplore.events.commands import RunCommand
    from tcexplore.model_python import ModelPython
    from tcexplore.session import Snapshot
    from tcexplore.studies.study_runs import Emit, Runner  # not before the first frame

Deliver: TypeAlias = "Callable[[Job | Event], None]"


class Engine(Protocol):
    """Watches a file and runs it on every save."""

    @property
    def job(self) -> Job | None:
        """The current job, or else the last one; None before the first run."""
        ...

    @property
    def pythons(self) -> tuple[ModelPython, ...]:
        """The environments to compare; the first runs the file. Empty for a trace."""
        ...

    @property
    def waiting(self) -> tuple[str, ...]:
        """Lines that tell what has to happen before the first run; empty if it begins by itself."""
        ...

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run; `deliver` gets a `Job` as each run begins, then the run's events."""
        ...

    def rerun(self) -> bool:
        """Read the file and run it again; return False if there is no program to run."""
        ...

    def update(self, run: Snapshot) -> None:
        """React to new facts about the newest run."""
        ...

    def stop_run(self) -> None:
        """End the current run."""
        ...

    def configure(self, mode: str, backend: str, dynamic: bool | None, further: tuple[str, ...] | None = None) -> None:
        """Use these arguments of `torch.compile` from now on, and rerun; None keeps the `further` arguments."""
        ...

    def open_file(self, file: str) -> None:
        """Watch and run another file from now on."""
        ...

    def retarget(self, target: str, *, known: bool) -> bool:
        """Use `target`, as in `Config.target`, for later runs; unless its code is `known`, generate it now.

        Return whether the current run generates it, from the graphs that it has. Otherwise a new run does.
        """
        ...

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run can take it.

        Timing stays paused until each `PauseTiming(paused=True)` is matched by a `PauseTiming(paused=False)`. The
        answer to a `RecompileQuery` is delivered as a `RecompileAnswer`.
        """
        ...

    def study_queue(self, emit: Emit) -> Runner:
        """Return a queue for a study's runs, which share the workers with the file's runs, but don't replace them."""
        ...

    async def close(self) -> None:
        """End everything; return when no process is left."""
        ...
