"""`tcexplore ship`: what torch can save of the compile, and what loading it elsewhere spares."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import blamed
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import refuse, study, write_json
from tcexplore.session import Snapshot
from tcexplore.studies.artifacts.artifacts_plan import save_and_load
from tcexplore.studies.study_runs import Runs, Say


def ship(request: Request) -> int:
    """Save in one worker, load in a second, and print what came of it; returns the exit status."""

    async def going(job: ev.Job, runs: Runs, say: Say) -> AsyncIterator[Snapshot]:
        async for run in save_and_load(job, runs, say, request.timeout):
            yield run

    try:
        found = study(request, going)
    except BadFileError as error:
        return refuse(error)
    _print(request, list(found), found.machine, stopped=bool(found.status))
    return found.status or max((blamed(run) for run in found), default=0)


def _print(request: Request, found: list[Snapshot], machine: ev.Standby | None, *, stopped: bool) -> None:
    if request.json:
        from tcexplore.studies.artifacts.artifacts_json import ship as fields

        write_json(fields(found, machine, stopped=stopped))
    else:
        from tcexplore.report.text.ship import print_ship

        print_ship(found, machine, stopped=stopped)
