"""`tcexplore serve-session`: watch a model file without a screen, and answer `tcexplore ask` over a local socket."""

from __future__ import annotations

import asyncio
import os
import sys

from tcexplore import events as ev
from tcexplore.answers.session_server import SessionServer
from tcexplore.answers.session_socket import run_options
from tcexplore.cli.file_argument import BadFileError, check_path, model_python, split
from tcexplore.cli.options import Request
from tcexplore.cli.run_once import EndedBySignalError, until_signal
from tcexplore.cli.terminal import print_error, refuse
from tcexplore.events.commands import RunCommand
from tcexplore.model_python import ModelPython
from tcexplore.session import Session
from tcexplore.ui.file_engine import FileEngine
from tcexplore.watch import read_file

RUNNING = "a session or the app answers for this file already"


def serve_session(request: Request) -> int:
    """Answer questions until a signal ends the session; return the exit status."""
    try:
        path, name = split(request.target)
        check_path(path)
        python = model_python(request, path)
    except BadFileError as error:
        return refuse(error.sentence)
    try:
        return asyncio.run(until_signal(_serve(path, name, request, python)))
    except EndedBySignalError:
        return 0
    except OSError as error:
        return refuse(f"the socket of the session cannot be opened: {error.strerror or error}")


async def _serve(path: str, name: str | None, request: Request, python: ModelPython) -> int:
    program = WatchedProgram(path, name, request, python)
    server = SessionServer(program, path, lambda: run_options(request.config, name, request.argv))
    program.server = server
    if not await server.start():
        return refuse(RUNNING)
    try:
        await program.engine.start(program.deliver)
        print_error(f"answering `tcexplore ask {request.target}`; Ctrl-C ends the session")
        sys.stderr.flush()
        await asyncio.Event().wait()
    finally:
        await server.close()
        await program.engine.close()
    return 0


class WatchedProgram:
    """The runs of a model file without a screen: of a save for its structure, with timing when a question needs it."""

    def __init__(self, file: str, name: str | None, request: Request, python: ModelPython) -> None:
        self._file = os.path.abspath(file)
        self.engine = FileEngine(file, request.config, request.argv, name, request.standbys, (python,))
        self.engine.structure_only = True
        self.session = Session()
        self.machine: ev.Standby | None = None
        self.server: SessionServer | None = None

    def deliver(self, item: ev.Job | ev.Event) -> None:
        """Take a job or an event from the engine."""
        if isinstance(item, ev.Job):
            self.session = self.session.begin(item).pack()
        else:
            self.machine = item if isinstance(item, ev.Standby) else self.machine
            self.session = self.session.apply(item)
        newest = self.session.newest
        if newest is not None:
            self.engine.update(newest)
        if self.server is not None:
            self.server.update()

    def source_on_disk(self) -> str | None:
        """Return the text of the model file; None if it cannot be read."""
        return read_file(self._file).text

    def rerun(self) -> None:
        """Run the file as it is on disk."""
        self.engine.rerun()

    def measure(self) -> None:
        """Run the file again with timing, unless the newest run is timed."""
        if self.engine.job is not None and self.engine.job.structure_only:
            self.engine.structure_only = False
            self.engine.rerun()
            self.engine.structure_only = True

    def send(self, command: RunCommand) -> bool:
        """Send a command to the newest run; return False if no run can take it."""
        return self.engine.send(command)
