"""One run, from job to the last event, without a screen."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore import events as ev
from tcexplore.cli.interruptible import EndedBySignalError, until_signal
from tcexplore.cli.progress_line import Line
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Emit, Outcome, Runner, Runs, Watcher

__all__ = ["EndedBySignalError", "Outcome", "run_once"]


async def run_once(job: ev.Job, within: float, runner: Callable[[Emit], Runner], line: Line | None = None) -> Outcome:
    """Run a job to its end, or for `within` seconds; `line` tells how far it is.

    Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the workers have been ended.
    """
    return await until_signal(_run(job, within, runner, line))


async def _run(job: ev.Job, within: float, runner: Callable[[Emit], Runner], line: Line | None) -> Outcome:
    if line is None:
        watcher: Watcher = _unseen
    else:
        line.write("waiting for a worker")
        watcher = line.show
    async with Runs(runner, watcher) as runs:
        return await runs.run(job, within)


def _unseen(_: Snapshot) -> None:
    """Nobody looks on."""
