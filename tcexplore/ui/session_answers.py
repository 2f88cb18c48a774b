"""The app answers `tcexplore ask` about its model file, as a session without a screen does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tcexplore.watch import read_file

if TYPE_CHECKING:
    from tcexplore import events as ev
    from tcexplore.answers.answer import Fields
    from tcexplore.answers.session_server import SessionServer
    from tcexplore.events.commands import RunCommand
    from tcexplore.session import Session
    from tcexplore.ui.run_actions import RunActions


class SessionAnswers:
    """Serves the newest run of the app over the socket of its file, once the first run is complete."""

    def __init__(self, app: RunActions) -> None:
        self._app = app
        self._server: SessionServer | None = None
        self._file = ""
        """The file whose socket is open, or being opened."""
        self._opening: asyncio.Task[None] | None = None

    def update(self) -> None:
        """Open the socket once a run of the file is complete, and tell the server that the session has changed."""
        newest = self._app.session.newest
        if newest is None or newest.trace:
            return
        if self._server is not None:
            self._server.update()
        if newest.file != self._file and newest.complete:
            self._file = newest.file
            self._opening = asyncio.create_task(self._open(newest.file))

    async def _open(self, file: str) -> None:
        await self._close_server()
        make = await asyncio.to_thread(_import_server)  # a tenth of a second, in which keys are answered
        server = make(self, file, self._options)
        try:
            if await server.start():
                self._server = server
        except OSError:
            return  # the app works without

    async def close(self) -> None:
        """Close the socket."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._close_server()

    async def _close_server(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.close()

    # ---- the program

    @property
    def session(self) -> Session:
        return self._app.session

    @property
    def machine(self) -> ev.Standby | None:
        return self._app.standby

    def source_on_disk(self) -> str | None:
        """Return the text of the model file; None if it cannot be read."""
        return read_file(self._file).text

    def rerun(self) -> None:
        """Run the file as it is on disk."""
        if self._app.engine is not None:
            self._app.engine.rerun()

    def measure(self) -> None:
        """Do nothing: the app times each run."""

    def send(self, command: RunCommand) -> bool:
        """Send a command to the newest run; return False if no run can take it."""
        return self._app.engine is not None and self._app.engine.send(command)

    def _options(self) -> Fields:
        from tcexplore.answers.session_socket import run_options

        job = self._app.engine.job if self._app.engine is not None else None
        return {} if job is None else run_options(job.config, job.name, job.argv)


def _import_server() -> type[SessionServer]:
    from tcexplore.answers.session_server import SessionServer

    return SessionServer
