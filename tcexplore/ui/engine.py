"""What the app needs of the machinery that watches the file and runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tcexplore.events import Event, Job

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

    async def close(self) -> None:
        """End everything; no process is left when this returns."""
        ...
