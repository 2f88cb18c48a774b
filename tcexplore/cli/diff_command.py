"""`tcexplore diff RUN RUN`: which kernels differ between two runs, by how much time, and why."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError, model_python
from tcexplore.cli.options import Request, TraceChoice
from tcexplore.cli.run_once import EndedBySignalError, Line, progress, run_once
from tcexplore.cli.terminal import print_error, refuse
from tcexplore.cli.trace_choice import TraceChoiceError
from tcexplore.documents.document import StaticDocument
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.session.run_difference import RunDifference, run_difference
from tcexplore.studies.runs import failure_status

GIT_S = 20.0

OTHER_PROCESSES = 1
"""Other processes in which each run is timed: the times of kernels are those of the run's own process."""


class _Side(NamedTuple):
    """A run: a job with its Python, or a trace."""

    text: str
    job: ev.Job | None = None
    python: ModelPython | None = None
    trace: Snapshot | None = None


def diff(request: Request) -> int:
    """Compare two runs; return the exit status."""
    try:
        sides = [_side(text, request) for text in request.runs]
        with progress(sys.stderr) as line:
            runs = [_run(side, request, line) for side in sides]
            for side, run in zip(sides, runs, strict=True):
                if run.failure is not None:
                    print_error(f"{side.text}: {run.failure.type}: {run.failure.message}")
                    return failure_status(run)
            difference = run_difference(*runs)
            if not request.no_trials and sides[1].job is not None:
                difference = asyncio.run(_tried(difference, sides[1], request, line))
    except BadFileError as error:
        return refuse(error.sentence)
    except TraceChoiceError as error:
        return refuse(str(error))
    except EndedBySignalError as ended:
        return ended.status
    _print(difference, as_json=request.json)
    return 0


def _side(text: str, request: Request) -> _Side:
    """Return the run that a word of the command line describes. Raises `BadFileError` and `TraceChoiceError`."""
    from tcexplore.cli.arguments import parse
    from tcexplore.cli.open_command import is_trace, read_trace

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadFileError(f"{text!r} cannot be split into words: {error}") from None
    if not words:
        raise BadFileError("A run is a file or a trace, with options of `tcexplore check`.", kind="arguments")
    path, revision = _revision(words[0])
    if not revision and is_trace(path):
        return _Side(text, trace=read_trace(TraceChoice((path,))).snapshot)
    own = parse(["check", path, *words[1:]])._replace(quick=request.quick, trust=request.trust)
    job = replace(make_job(own), try_recompile_fixes=False, timing_processes=OTHER_PROCESSES)
    if revision:
        job = replace(job, source=_source_at(job.file, revision))
    return _Side(text, job, model_python(own, job.file))


def _revision(word: str) -> tuple[str, str]:
    """Return path and revision of `model.py@HEAD~1`."""
    path, at, revision = word.rpartition("@")
    return (path, revision) if at and os.path.exists(path) and not os.path.exists(word) else (word, "")


def _source_at(path: str, revision: str) -> str:
    """Return the text of a file in a commit. Raises `BadFileError`."""
    folder, name = os.path.split(path)
    command = ("git", "-C", folder, "show", "--end-of-options", f"{revision}:./{name}")
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadFileError(f"git cannot be asked for {name} at {revision}: {error}") from None
    if shown.returncode:
        raise BadFileError(f"git has no {name} at {revision}: {ev.clean(shown.stderr.strip())}")
    return shown.stdout


def _run(side: _Side, request: Request, line: Line) -> Snapshot:
    if side.job is None or side.python is None:
        assert side.trace is not None
        return side.trace
    line.print_line(side.text)
    return asyncio.run(run_once(side.job, request.timeout, line, side.python)).snapshot


async def _tried(difference: RunDifference, side: _Side, request: Request, line: Line) -> RunDifference:
    """Return the difference with the settings tried in the later run's program."""
    from tcexplore.studies.setting_trials import try_settings

    job, python = side.job, side.python
    assert job is not None
    assert python is not None

    async def compile_with(config: ev.Config) -> Snapshot:
        line.print_line(f"trying {', '.join(config.settings)}"[:200])
        trial = replace(job, config=config, time_for=0.0, structure_only=True)
        return (await run_once(trial, request.timeout, line, python)).snapshot

    async for tried in try_settings(difference, compile_with):
        difference = tried
    return difference


def _print(difference: RunDifference, *, as_json: bool) -> None:
    if as_json:
        from tcexplore.report.run_difference_json import difference_fields

        json.dump(difference_fields(difference), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    from tcexplore.documents.run_difference_rows import difference_rows
    from tcexplore.report.printed import print_document

    print_document(lambda width: StaticDocument("", tuple(difference_rows(difference, width))))
