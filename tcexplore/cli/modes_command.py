"""`tcexplore compare`: every mode and backend side by side."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import blamed
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import refuse, study, write_json
from tcexplore.documents.configurations import describe_configuration
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.modes.modes_plan import UNKNOWN, cells, plan
from tcexplore.studies.modes.modes_text import result
from tcexplore.studies.scratch import scratch
from tcexplore.studies.study_runs import Runs


def compare(request: Request) -> int:
    """Run every cell and print the matrix; returns the exit status."""

    async def going(job: ev.Job, runs: Runs, say: Callable[[str], None]) -> AsyncGenerator[RunFigures, None]:
        machine = await runs.machine(request.timeout) or UNKNOWN
        wanted = request.study
        jobs = plan(job, machine, wanted.modes, wanted.backends, wanted.dynamic)
        number = 0
        say(_at(0, jobs))
        async with scratch(runs, "compare") as folder:
            async for cell in cells(jobs, runs, request.timeout, folder):
                number += 1
                say(_at(number, jobs))
                yield cell

    try:
        found = study(request, going, result)
    except BadFileError as error:
        return refuse(error)
    if request.json:
        from tcexplore.studies.study_json import matrix

        write_json(matrix(found, found.machine, stopped=bool(found.status)))
    else:
        from tcexplore.report.text.matrix import print_matrix

        print_matrix(found, found.machine, stopped=bool(found.status))
    return found.status or _status(found)


def _at(number: int, jobs: tuple[ev.Job, ...]) -> str:
    return (
        f"{number + 1} of {len(jobs)}: {describe_configuration(jobs[number].config)}" if number < len(jobs) else "done"
    )


def _status(found: list[RunFigures]) -> int:
    """A cell that fails is a finding; only where none works is there something to put right first."""
    worst = [blamed(cell.run) for cell in found]
    return min(worst, default=0)
