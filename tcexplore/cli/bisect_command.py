"""`tcexplore blame`: which layer of the compiler crashes, or gives a wrong result."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable

from tcexplore import events as ev
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import USER, Studied, refuse, study, write_json
from tcexplore.studies.bisect.bisect_plan import climb, ladder
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStep, culprit
from tcexplore.studies.study_runs import Runs

FOUND = 1
"""Exit status when a layer is to blame."""


def blame(request: Request) -> int:
    """Climb the ladder and print what was found; returns the exit status."""

    async def going(job: ev.Job, runs: Runs, say: Callable[[str], None]) -> AsyncGenerator[BisectStep, None]:
        machine = await runs.machine(request.timeout)
        rungs = ladder(machine.backends if machine else (), request.config.mode)
        say(rungs[1].layer)
        async for step in climb(job, rungs, runs, request.timeout):
            above = rungs.index(step.rung) + 1
            say(rungs[above].layer if above < len(rungs) else "done")
            yield step

    try:
        found = study(request, going)
    except BadFileError as error:
        return refuse(error)
    guilty = culprit(tuple(found))
    written = _write(request, guilty, found.machine)
    _print(request, found, written)
    if guilty is None:
        return found.status
    return USER if guilty.rung is EAGER else FOUND


def _write(request: Request, guilty: BisectStep | None, machine: ev.Standby | None) -> str:
    """Where the reproducer went; empty where none was asked for, or there is nothing to show."""
    folder = request.study.repro
    if folder is None or guilty is None or guilty.rung is EAGER:
        return ""
    from tcexplore.studies.bisect.reproducer import write

    try:
        write(folder, make_job(request), guilty, machine)
    except (OSError, BadFileError) as error:
        sys.stderr.write(f"tcexplore: the reproducer could not be written: {error}\n")
        return ""
    return folder


def _print(request: Request, found: Studied[BisectStep], written: str) -> None:
    if request.json:
        from tcexplore.studies.bisect.bisect_json import blame as fields

        write_json(fields(found, found.machine, written=written, stopped=bool(found.status)))
    else:
        from tcexplore.report.text.blame import print_blame

        print_blame(found, found.machine, written=written, stopped=bool(found.status))
