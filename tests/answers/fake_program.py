"""A program whose runs are made up, for tests of sessions."""

from __future__ import annotations

import asyncio

from tcexplore import events as ev
from tcexplore.events.commands import RunCommand
from tcexplore.session import Session


class FakeProgram:
    """The runs are those of `session`. `on_disk` is the text of the file."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.machine: ev.Standby | None = None
        newest = session.newest
        self.on_disk: str | None = newest.source if newest else None
        self.reruns = 0
        self.measured = asyncio.Event()
        self.sent: list[RunCommand] = []

    def source_on_disk(self) -> str | None:
        return self.on_disk

    def rerun(self) -> None:
        self.reruns += 1

    def measure(self) -> None:
        self.measured.set()

    def send(self, command: RunCommand) -> bool:
        self.sent.append(command)
        return True
