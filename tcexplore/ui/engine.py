"""What the app needs of the machinery that watches the file and runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tcexplore.events import Event, Job

if TYPE_CHECKING:
    from tcexplore.studies.study_runs import Emit, Runner  # not before the first frame

Deliver = Callable[[Job | Event], None]


class Engine(Protocol):
    """Watches a file and runs it on every save. Everything that happens is told to the function given to `start`."""

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run; a `Job` is delivered as each run begins, then its events."""
        ...

    def rerun(self) -> None:
        """Run the file again as it is now."""
        ...

    def stop_run(self) -> None:
        """End the run that is under way."""
        ...

    @property
    def job(self) -> Job | None:
        """What is run now or was run last; None before the first run."""
        ...

    def configure(self, mode: str, backend: str, dynamic: bool | None) -> None:
        """Run the file with these arguments of `torch.compile` from now on, and at once."""
        ...

    def hold(self, held: bool) -> None:
        """Have the file's own runs pause their timing; each `hold(True)` is to be lifted by one `hold(False)`."""
        ...

    def beside(self, emit: Emit) -> Runner:
        """Somewhere to make runs that neither end nor wait for those of the file; its owner starts and closes it."""
        ...

    def ask(self, inputs: tuple[str, ...], region: int | None = None) -> bool:
        """Ask the run under way whether these inputs would recompile, or a region of it where that is a script; the
        answer is delivered as a `RecompileAnswer`.

        Returns False where no run is alive to answer.
        """
        ...

    def retarget(self, target: str, *, known: bool) -> bool:
        """Later runs are for `target`, as `Config.target` takes it; unless its code is `known`, it is made now.

        Returns whether the run that is under way makes it, from the graphs that it has; else a new run does.
        """
        ...

    async def close(self) -> None:
        """End everything; no process is left when this returns."""
        ...
