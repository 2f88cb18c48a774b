"""One run, from job to the last event, without a screen."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore import events as ev
from tcexplore.cli.interrupted import EndedBySignalError, until_signal
from tcexplore.study.runs import Emit, Outcome, Runner, Runs, Watcher

__all__ = ["EndedBySignalError", "Outcome", "run_once"]


async def run_once(job: ev.Job, within: float, runner: Callable[[Emit], Runner], progress: Watcher) -> Outcome:
    """Run a job to its end, or for `within` seconds; `progress` sees the snapshot after each event.

    Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the workers have been ended.
    """
    return await until_signal(_run(job, within, runner, progress))


async def _run(job: ev.Job, within: float, runner: Callable[[Emit], Runner], progress: Watcher) -> Outcome:
    async with Runs(runner, progress) as runs:
        return await runs.run(job, within)
