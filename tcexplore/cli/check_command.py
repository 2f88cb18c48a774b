"""`tcexplore check`: one run, printed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError, read, split
from tcexplore.cli.limits import exceeded, status
from tcexplore.cli.progress_line import progress
from tcexplore.cli.request import Request
from tcexplore.cli.run_once import EndedBySignalError, run_once
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Outcome


def check(request: Request) -> int:
    """Run the file once and print the report; return the exit status."""
    try:
        job = make_job(request)
    except BadFileError as error:
        return _refuse(request, error)
    try:
        with progress(sys.stderr) as line:
            outcome = asyncio.run(run_once(job, request.timeout, line))
    except EndedBySignalError as ended:
        return ended.status
    _print(request, outcome)
    return status(request, outcome)


def make_job(request: Request) -> ev.Job:
    """Return the job of a request. Raises `BadFileError`."""
    path, name = split(request.target)
    source = read(path)
    return ev.Job(
        run=1,
        file=os.path.abspath(path),
        source=source,
        name=name,
        argv=request.argv,
        config=request.config,
        time_for=request.time_for,
        recompile_queries=request.recompile_queries,
    )


def _refuse(request: Request, error: BadFileError) -> int:
    """Print the error on stderr, and also as JSON if that is requested; return the exit status."""
    sys.stderr.write(f"tcexplore: {error.sentence}\n")
    if request.json:
        empty = Snapshot(run=1, file=request.target, source="", config=request.config)
        _print(request, Outcome(empty.apply(error.failure)))
    return 2


def _print(request: Request, outcome: Outcome) -> None:
    limits = exceeded(request, outcome)
    if request.json:
        from tcexplore.report.json_report import report

        json.dump(report(outcome.snapshot, outcome.machine, limits, request.calls), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        from tcexplore.report.check_report import check_report
        from tcexplore.report.printed import print_document

        print_document(partial(check_report, outcome.snapshot, outcome.machine, limits, request.calls))
    sys.stdout.flush()
