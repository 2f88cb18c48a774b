"""A job that tcexplore started, as events."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from typing import Literal

from tcexplore.events import Event, Job, Output, clean
from tcexplore.traced_job import STDERR, STDOUT, TracedJob

_CHUNK = 1 << 17
"""Bytes of output that are shown at a time."""

_MOST_BEHIND = 1 << 21
"""Bytes of output that are not yet shown, from which on their beginning is skipped."""


class LaunchedJob:
    """Reads what the job has written since the last time."""

    def __init__(self, job: TracedJob) -> None:
        self._job = job
        self._tails = (_OutputTail(job.folder, STDOUT, "stdout"), _OutputTail(job.folder, STDERR, "stderr"))
        self._ended = False
        self.report = ""
        """End of the job's stderr, if it failed: torchrun's report on its ranks."""

    def job(self, run: int) -> Job:
        """Return the run that shows the job: the file is the first one of the command that is Python source."""
        command = self._job.command
        file = next((os.path.abspath(word) for word in command if word.endswith(".py")), command[0])
        try:
            with open(file, encoding="utf-8", errors="replace") as source:
                text = clean(source.read()) if file.endswith(".py") else ""
        except OSError:
            text = ""
        return Job(run=run, file=clean(file), source=text, trace=self.name)

    def events(self) -> Iterator[Event]:
        """Yield new output, and the failure of a job that has ended with one."""
        status = self._job.status()
        for tail in self._tails:
            yield from tail.read()
        if status is not None and not self._ended:
            self._ended = True
            if (failure := self._job.failure()) is not None:
                self.report = self._tails[1].end()
                yield failure

    @property
    def name(self) -> str:
        """The command with its process id."""
        return clean(f"{os.path.basename(self._job.command[0])}, pid {self._job.pid}")

    @property
    def ends_with_app(self) -> bool:
        """Whether the job runs, and ends when the app does."""
        return not self._job.detach and self._job.status() is None

    @property
    def over(self) -> bool:
        """Whether the job has ended, and all of its output was read."""
        return self._ended and not any(tail.behind for tail in self._tails)


class _OutputTail:
    def __init__(self, folder: str, name: str, stream: Literal["stdout", "stderr"]) -> None:
        self._path = os.path.join(folder, name)
        self._stream = stream
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.behind = True

    def read(self) -> Iterator[Output]:
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size - self._at > _MOST_BEHIND:
                    skipped = size - self._at - _MOST_BEHIND // 2
                    self._at += skipped
                    yield self._output(f"\n… {skipped:,} bytes are not shown; they are in {self._path}\n")
                file.seek(self._at)
                data = file.read(_CHUNK)
        except OSError:
            self.behind = False
            return
        self._at += len(data)
        self.behind = self._at < size
        if text := self._decoder.decode(data):
            yield self._output(clean(text))

    def end(self) -> str:
        """Return the last part of the output, shown or not."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _CHUNK))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _output(self, text: str) -> Output:
        return Output(stream=self._stream, text=text)


def end_of_errors(folder: str) -> str:
    """Return the last part of what the job of a folder wrote to stderr; empty if tcexplore did not start it."""
    return _OutputTail(folder, STDERR, "stderr").end()
