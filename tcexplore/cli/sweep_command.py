"""`tcexplore sweep`: one dimension at several sizes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import blamed
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import Studied, refuse, study, write_json
from tcexplore.studies.study_runs import Runs
from tcexplore.studies.sweep.sweep_plan import plan, steps
from tcexplore.studies.sweep.sweep_result import Sweep, SweepStep
from tcexplore.studies.sweep.sweep_text import named, result


def sweep(request: Request) -> int:
    """Run every size and print what they give; returns the exit status."""
    wanted = request.study

    async def going(job: ev.Job, runs: Runs, say: Callable[[str], None]) -> AsyncGenerator[SweepStep, None]:
        planned = plan(job, wanted.dim, wanted.sizes)
        names = [named(form, size) for form, size, _ in planned]
        say(f"1 of {len(names)}: {names[0]}")
        done = 0
        async for step in steps(planned, runs, request.timeout):
            done += 1
            say(f"{done + 1} of {len(names)}: {names[done]}" if done < len(names) else "done")
            yield step

    try:
        found = study(request, going, result)
    except BadFileError as error:
        return refuse(error)
    _print(request, found)
    return found.status or min((blamed(step.cell.run) for step in found), default=0)


def _print(request: Request, found: Studied[SweepStep]) -> None:
    swept, stopped = Sweep(request.study.dim, request.study.sizes, tuple(found)), bool(found.status)
    if request.json:
        from tcexplore.studies.sweep.sweep_json import sweep as fields

        write_json(fields(swept, found.machine, stopped=stopped))
    else:
        from tcexplore.report.text.sweep import print_sweep

        print_sweep(swept, found.machine, stopped=stopped)
