"""A study from the command line: results as they come, and what there is when it is stopped."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from tcexplore import events as ev
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.interruptible import EndedBySignalError, until_signal
from tcexplore.cli.progress_line import Line, progress
from tcexplore.cli.request import Request
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Going, Result, Runs

USER = 2


class Studied(list[Result]):
    """The results so far, in their order. `status` is 0, or says which signal ended the study; `machine` is the
    worker's greeting."""

    status = 0
    machine: ev.Standby | None = None


def study(request: Request, going: Going[Result], told: Callable[[Result], str] = lambda _: "") -> Studied[Result]:
    """Go through a study; `going(job, runs, say)` yields its results and says what is under way. `told` is the line
    that a result is worth as soon as it is there, empty for none.

    Raises `BadFileError` where there is nothing to run.
    """
    job, found = make_job(request), Studied[Result]()
    with progress(sys.stderr) as line:
        try:
            asyncio.run(until_signal(_go(job, going, found, line, told)))
        except EndedBySignalError as ended:
            found.status = ended.status
    return found


async def _go(
    job: ev.Job, going: Going[Result], found: Studied[Result], line: Line, told: Callable[[Result], str]
) -> None:
    from tcexplore.supervisor import Supervisor

    what = ""

    def say(text: str) -> None:
        nonlocal what
        what = text
        line.write(text)

    def watch(snapshot: Snapshot) -> None:
        line.show(snapshot, what)

    say("waiting for a worker")
    async with Runs(Supervisor, watch) as runs:
        async for result in going(job, runs, say):
            found.append(result)
            if text := told(result):
                line.tell(text)
            found.machine = await runs.machine(0)


def refuse(error: BadFileError) -> int:
    """A file that cannot be run: one message on stderr."""
    sys.stderr.write(f"tcexplore: {error.sentence}\n")
    return USER


def write_json(fields: dict[str, Any]) -> None:
    """The whole result on stdout."""
    json.dump(fields, sys.stdout, indent=1)
    sys.stdout.write("\n")
    sys.stdout.flush()
