"""`tcexplore cure`: each graph break with the change that removes it, proven."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable

from tcexplore import events as ev
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import blamed
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import Studied, refuse, study, write_json
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.fixes.file_writes import NotWrittenError, write
from tcexplore.session import Snapshot
from tcexplore.studies.fixes.fixes_plan import FixAttempts, treat
from tcexplore.studies.study_runs import Runs
from tcexplore.watch import read_source

LEFT = 1
"""Exit status when a break has no proven cure."""


def cure(request: Request) -> int:
    """Try every cure and print what was found; returns the exit status."""
    treatments: list[FixAttempts] = []

    async def going(job: ev.Job, runs: Runs, say: Callable[[str], None]) -> AsyncIterator[AttemptedFixes | Snapshot]:
        treatments.append(FixAttempts(job, read_source))
        say("the file as it is")
        async for found in treat(treatments[0], runs, request.timeout, request.time_for, request.study.number, say):
            yield found

    try:
        make_job(request)
        found = study(request, going)
    except BadFileError as error:
        return refuse(error)
    run = next((one for one in found if isinstance(one, Snapshot)), None)
    if run is None:
        return found.status
    if run.failure is not None:
        sys.stderr.write(f"tcexplore: {run.failure.type}: {run.failure.message}\n")
        return blamed(run)
    treated = [one for one in found if isinstance(one, AttemptedFixes)]
    written = _write(treatments[0]) if request.study.write and not found.status else ()
    _print(request, run, treated, found, written)
    return found.status or (0 if all(one.cure for one in treated) else LEFT)


def _write(treatment: FixAttempts) -> tuple[str, ...]:
    """Write every file that was cured; returns those that were."""
    written = []
    for file, text in treatment.texts.items():
        before = treatment.originals[file]
        if text != before:
            try:
                write(file, before, text)
            except NotWrittenError as error:
                sys.stderr.write(f"tcexplore: {error}\n")
            else:
                written.append(file)
    return tuple(written)


def _print(
    request: Request,
    run: Snapshot,
    treated: list[AttemptedFixes],
    found: Studied[AttemptedFixes | Snapshot],
    written: tuple[str, ...],
) -> None:
    stopped = bool(found.status)
    if request.json:
        from tcexplore.studies.fixes.fixes_json import cures

        write_json(cures(run, treated, found.machine, written=written, stopped=stopped))
    else:
        from tcexplore.report.text.cures import print_cures

        print_cures(run, treated, found.machine, written=written, stopped=stopped)
