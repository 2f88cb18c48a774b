"""Runs without a screen: their progress on stderr, and their end by a signal."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Self, TextIO, TypeVar

from tcexplore import events as ev
from tcexplore.documents.empty_states import describe_work
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tcexplore.processes import Deadline
from tcexplore.quantities import count
from tcexplore.session import Snapshot, summarize
from tcexplore.studies.runs import Outcome, Runs, Watcher

# ---- progress


PATIENCE_S = 1.0
"""Seconds that a step takes before a log has a line about it: quick steps are not worth one."""

AGAIN_S = 30.0
"""Maximum seconds between two lines of a log."""

ERASE = "\r\x1b[2K"


class Line:
    """A line that is rewritten in place and finally erased.

    It is written only when its text changes, so that it does not disturb timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def erase(self) -> None:
        """Remove the line, before other output."""
        self._stream.write(ERASE)
        self._stream.flush()

    def write(self, text: str) -> None:
        """Show what is under way."""
        self._update(text, text)

    def show(self, snapshot: Snapshot, prefix: str = "") -> None:
        """Show the progress of a run, after a prefix."""
        summary, running = summarize(snapshot), snapshot.status == "running"
        phase = describe_work(snapshot) if running else "done"
        counts = (count(summary.graphs, "graph"), count(summary.breaks, "break"), count(summary.kernels, "kernel"))
        so_far = ", ".join(counts) if snapshot.compiled or summary.breaks else ""
        self._update(" · ".join(filter(None, (prefix, phase, so_far))), prefix or phase)

    def print_line(self, text: str) -> None:
        """Print a line that stays: a result."""
        self._stream.write(f"{ERASE}{self._stamped(text)}\n")
        self._stream.flush()
        self._text = ""

    def _update(self, text: str, step: str) -> None:  # noqa: ARG002 - a log needs the step
        if text == self._text:
            return
        self._text = text
        self._stream.write(ERASE + self._stamped(text)[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _stamped(self, text: str) -> str:
        return f"tcexplore · {time.monotonic() - self._start:.1f} s · {text}"


class Log(Line):
    """Lines for a file or a pipe: one for each step that takes longer than `patience` seconds, and one at least every
    `AGAIN_S` seconds. It writes only while an event loop runs."""

    def __init__(self, stream: TextIO | None, patience: float = PATIENCE_S) -> None:
        self._log, self._patience = stream, patience
        self._step = ""
        self._newest = self._start = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def __exit__(self, *_: object) -> None:
        self.erase()

    def erase(self) -> None:
        self._cancel()

    def print_line(self, text: str) -> None:
        print(self._stamped(text), file=self._log, flush=True)
        self._newest = time.monotonic()

    def _update(self, text: str, step: str) -> None:
        self._text = text
        if step == self._step:
            return
        self._step = step
        self._wait(min(self._patience, self._newest + AGAIN_S - time.monotonic()))

    def _wait(self, seconds: float) -> None:
        self._cancel()
        try:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._write)
        except RuntimeError:
            self._timer = None

    def _write(self) -> None:
        self.print_line(self._text)
        self._wait(AGAIN_S)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def progress(stream: TextIO | None) -> Line:
    """Return a line for a terminal, else a log."""
    return Line(stream) if stream is not None and stream.isatty() else Log(stream)


# ---- the run


Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignalError(Exception):
    """A signal ended the work."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number
        """The exit status for this signal."""


async def run_once(
    job: ev.Job, limit: float, line: Line | None = None, python: ModelPython = OWN_PYTHON, needed_later: str = ""
) -> Outcome:
    """Run a job in a real worker to its end, or for `limit` seconds; `line` shows the progress.

    The module `needed_later` is imported while the worker imports torch. Raises `EndedBySignalError` on SIGINT, SIGTERM
    and SIGHUP, after the workers have been ended.
    """
    return await until_signal(_run(job, limit, line, python, needed_later))


async def _run(job: ev.Job, limit: float, line: Line | None, python: ModelPython, needed_later: str) -> Outcome:
    from tcexplore.supervisor import Supervisor

    watcher: Watcher = _ignore
    if line is not None:
        line.write("waiting for a worker")
        watcher = line.show
    async with Runs(partial(Supervisor, once=True, python=python), watcher) as runs:
        if needed_later:
            await asyncio.sleep(0)  # the worker starts
            import_module(needed_later)
        return await runs.run(job, limit)


def _ignore(_: Snapshot) -> None:
    """Show no progress."""


async def until_signal(work: Coroutine[Any, Any, Result], at_signal: Callable[[], None] | None = None) -> Result:
    """Await the work. `at_signal` is called before it is cancelled: on a busy machine, the end may not leave time.

    Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the work has been cancelled and has cleaned up. If
    that takes longer than `END_S`, this process ends with all its descendants.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(work)
    with _signals(ended):
        either: set[asyncio.Future[Any]] = {task, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            if at_signal is not None:
                at_signal()
            task.cancel()
            await asyncio.wait({task})
            raise EndedBySignalError(ended.result())
        return await task


@contextmanager
def _signals(ended: asyncio.Future[int]) -> Iterator[None]:
    """Resolve `ended` with the first signal that asks the program to end, and let it end by a deadline."""
    loop, deadline = asyncio.get_running_loop(), Deadline()

    def end(number: int) -> None:
        deadline.begin(128 + number)
        if not ended.done():
            ended.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    finally:
        deadline.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
