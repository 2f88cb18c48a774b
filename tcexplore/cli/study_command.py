"""A study from the command line: results as they come, and those so far if it is stopped."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError, model_pythons
from tcexplore.cli.options import Request
from tcexplore.cli.run_once import EndedBySignalError, Line, progress, until_signal
from tcexplore.cli.terminal import print_error, refuse
from tcexplore.documents.document import Document, StaticDocument
from tcexplore.documents.prose import BLANK
from tcexplore.events import Event
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import Study, StudyState, load_study, run_study, study_job


def run_study_command(request: Request) -> int:
    """Run a study and print its results; return the exit status."""
    kind = load_study(request.command)
    try:
        job = replace(study_job(make_job(request)), time_for=request.time_for)
        pythons, options = model_pythons(request, job.file), request.study
        if len(pythons) > 1:
            kind, options = kind.across_environments(options, job, pythons)
        state = StudyState[Any, Any](job, options, request.timeout, request.budget)
    except BadFileError as error:
        return refuse(error.sentence)

    def print_results() -> None:
        message = kind.write(state)
        if request.json:
            _print_json(kind, state)
        else:
            from tcexplore.report.printed import print_document

            print_document(lambda width: study_report(kind, state, width))
        if message:
            print_error(message)

    ended = _run(kind, state, pythons, print_results)
    if state.refused:
        return refuse(str(state.refused), f"tcexplore {kind.name}")
    if ended:
        return ended
    print_results()
    return kind.exit_status(state)


def study_report(kind: Study[Any, Any], state: StudyState[Any, Any], width: int) -> Document:
    """Return the study's document with its heading."""
    from tcexplore.studies.study_text import heading_rows

    rows = list(heading_rows(state, width))
    if state.results:
        document = kind.document(state, width)
        rows += [BLANK, *map(document.row, range(len(document)))]
    return StaticDocument("", tuple(rows))


def _run(
    kind: Study[Any, Any],
    state: StudyState[Any, Any],
    pythons: Sequence[ModelPython],
    print_results: Callable[[], None],
) -> int:
    """Run the study; return the exit status of the signal that ended it, else 0. At a signal, print the results."""
    with progress(sys.stderr) as line:

        def stop() -> None:
            state.stopped = state.over = True
            state.run = None
            state.results = [kind.settled(result, stopped=True) for result in state.results]
            line.erase()
            if not state.refused:
                print_results()

        try:
            asyncio.run(until_signal(_follow(kind, state, line, pythons), stop))
        except EndedBySignalError as ended:
            return ended.status
        finally:
            state.over, state.run = True, None
    return 0


async def _follow(
    kind: Study[Any, Any], state: StudyState[Any, Any], line: Line, pythons: Sequence[ModelPython]
) -> None:
    from tcexplore.supervisor import Supervisor

    def announce(step: str) -> None:
        state.step = step
        line.write(_progress(state))

    def show(run: Snapshot) -> None:
        line.show(run, _progress(state))

    def log(result: Any) -> None:
        if text := kind.result_line(result):
            line.print_line(text)

    line.write(state.step)
    import_module("tcexplore.report.printed")  # at a signal, there is little time
    if len(pythons) > 1:
        from tcexplore.supervisor.supervisor import EnvironmentQueue

        runner = partial(EnvironmentQueue, {python.executable: python for python in pythons})
        async with Runs(runner, show) as runs:
            await run_study(kind, state, runs, announce, log)
        return
    from tcexplore.supervisor.supervisor import StudyQueue

    supervisor = Supervisor(_ignore, prime=False, python=pythons[0])
    await supervisor.start()
    try:
        queue = partial(StudyQueue, supervisor.study_queue, pythons[0])
        async with Runs(queue, show) as runs:
            await run_study(kind, state, runs, announce, log)
    finally:
        await supervisor.close()


def _ignore(_: Event) -> None:
    """Drop the events of the workers; each queue gets them too."""


def _progress(state: StudyState[Any, Any]) -> str:
    return ": ".join(filter(None, (state.steps, state.step)))


def _print_json(kind: Study[Any, Any], state: StudyState[Any, Any]) -> None:
    from tcexplore.studies.study_json import study_fields

    json.dump(study_fields(kind, state), sys.stdout, indent=1)
    sys.stdout.write("\n")
    sys.stdout.flush()
