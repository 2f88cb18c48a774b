"""A study from the command line: results as they come, and those so far if it is stopped."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.progress_line import Line, progress
from tcexplore.cli.request import Request
from tcexplore.cli.run_once import EndedBySignalError, until_signal
from tcexplore.documents.document import Document
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK
from tcexplore.session import Snapshot
from tcexplore.studies.study import Study, StudyState, load_study, run_study
from tcexplore.studies.study_runs import Runs

BAD_FILE = 2
"""Exit status if the file cannot be run."""


def run_study_command(request: Request) -> int:
    """Run a study and print its results; return the exit status."""
    kind = load_study(request.command)
    try:
        state = StudyState[Any, Any](make_job(request), request.study, request.timeout)
    except BadFileError as error:
        sys.stderr.write(f"tcexplore: {error.sentence}\n")
        return BAD_FILE
    ended = _run(kind, state)
    if message := kind.write(state):
        sys.stderr.write(f"tcexplore: {message}\n")
    if request.json:
        _print_json(kind, state)
    else:
        from tcexplore.report.printed import print_document

        print_document(lambda width: study_report(kind, state, width))
    return ended or kind.exit_status(state)


def study_report(kind: Study[Any, Any], state: StudyState[Any, Any], width: int) -> Document:
    """Return the study's document with its heading."""
    from tcexplore.studies.study_text import heading_rows

    rows = list(heading_rows(state))
    if state.results:
        document = kind.document(state, width)
        rows += [BLANK, *map(document.row, range(len(document)))]
    return StaticDocument("", tuple(rows))


def _run(kind: Study[Any, Any], state: StudyState[Any, Any]) -> int:
    """Run the study; return the exit status of the signal that ended it, else 0."""
    with progress(sys.stderr) as line:
        try:
            asyncio.run(until_signal(_follow(kind, state, line)))
        except EndedBySignalError as ended:
            state.stopped = True
            return ended.status
        finally:
            state.over, state.run = True, None
    return 0


async def _follow(kind: Study[Any, Any], state: StudyState[Any, Any], line: Line) -> None:
    from tcexplore.supervisor import Supervisor

    def announce(step: str) -> None:
        state.step = step
        line.write(step)

    def show(run: Snapshot) -> None:
        line.show(run, state.step)

    def log(result: Any) -> None:
        if text := kind.result_line(result):
            line.print_line(text)

    line.write(state.step)
    async with Runs(partial(Supervisor, prime=False), show) as runs:
        await run_study(kind, state, runs, announce, log)


def _print_json(kind: Study[Any, Any], state: StudyState[Any, Any]) -> None:
    from tcexplore.studies.study_json import study_fields

    json.dump(study_fields(kind, state), sys.stdout, indent=1)
    sys.stdout.write("\n")
    sys.stdout.flush()
