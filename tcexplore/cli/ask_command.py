"""`tcexplore ask`: one question about a model file, a trace or a saved report, answered briefly.

What only a run needs is imported when a run is made: a session is asked in a tenth of the time.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from tcexplore.answers.session_socket import NoSessionError, ask_session, question, run_options
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import Question, Request, TraceChoice
from tcexplore.cli.terminal import USER_ERROR, print_error, refuse
from tcexplore.events.config import Config

if TYPE_CHECKING:
    from tcexplore.answers.questions import Asked
    from tcexplore.studies.runs import Outcome

Fields = dict[str, Any]

STATUSES = {"user": 2, "compiler": 3}
"""Exit statuses by whose error it is."""


class _NoAnswerError(Exception):
    """The source of the answer cannot be read."""


def ask(request: Request) -> int:
    """Answer the question; return the exit status."""
    wanted = request.question or Question()
    status = None if wanted.no_session or _kind(request.target) else _ask_session(request, wanted)
    return _ask(request, wanted) if status is None else status


def _ask_session(request: Request, wanted: Question) -> int | None:
    """Print the answer of a running session, and return the exit status; None if there is no session to answer."""
    try:
        path, name = split(request.target)
        before = None if wanted.against is None else _saved_report(wanted.against)
    except (BadFileError, _NoAnswerError):
        return None  # reported by the run
    given = request.config != Config() or name is not None or bool(request.argv)
    message = question(
        wanted.words, _command(request, wanted), line=wanted.line, slowest=wanted.slowest, skip=wanted.skip,
        max_tokens=wanted.max_tokens, as_json=request.json, quick=request.quick, before=before,
        options=run_options(request.config, name, request.argv) if given else None,
    )  # fmt: skip
    waits: list[str] = []
    try:
        reply = ask_session(path, message, request.timeout, waits.append)
    except NoSessionError as error:
        if str(error):
            print_error(f"{error}: running the file instead")
        return None
    if "bad_question" in reply:
        return refuse(str(reply["bad_question"]))
    sys.stdout.write(reply["text"])
    return STATUSES.get(reply["blame"], USER_ERROR if reply["problem"] else 0)


def _ask(request: Request, wanted: Question) -> int:
    """Answer from a trace, a saved report or a run; return the exit status."""
    from tcexplore.answers.answer import render
    from tcexplore.answers.questions import QuestionError, answer, asked_of
    from tcexplore.cli.run_once import EndedBySignalError
    from tcexplore.cli.trace_choice import TraceChoiceError

    try:
        asked = asked_of(wanted.words, wanted.line, wanted.slowest)
        facts, status = _facts(request, asked)
        if wanted.against is not None:
            facts["before"] = _saved_report(wanted.against)
    except BadFileError as error:
        return refuse(error.sentence)
    except (TraceChoiceError, _NoAnswerError, QuestionError) as error:
        return refuse(str(error))
    except EndedBySignalError as ended:
        return ended.status
    known, command = answer(facts, asked), _command(request, wanted)
    sys.stdout.write(render(known, command, as_json=request.json, max_tokens=wanted.max_tokens, skip=wanted.skip))
    return status or (USER_ERROR if known.problem else 0)


def _command(request: Request, wanted: Question) -> str:
    """Return the command line of the question."""
    words = ["tcexplore", "ask", request.target, *wanted.words]
    options = {"--line": wanted.line, "--slowest": wanted.slowest, "--against": wanted.against}
    words += [part for name, value in options.items() if value is not None for part in (name, str(value))]
    return shlex.join(words)


def _kind(target: str) -> str:
    """Return `saved report` or `trace`; empty for a model file."""
    if target.endswith(".json"):
        return "saved report"
    if target.rpartition(":")[0].endswith(".py") or target.endswith(".py"):
        return ""
    from tcexplore.cli.open_command import is_trace

    return "trace" if is_trace(target) else ""


def _facts(request: Request, asked: Asked) -> tuple[Fields, int]:
    """Return the keys of the report that the question reads, and the exit status of the run."""
    from tcexplore.answers.questions import QUESTIONS
    from tcexplore.cli.open_command import read_trace
    from tcexplore.report.json_report import report
    from tcexplore.studies.runs import failure_status

    known, kind = QUESTIONS[asked.question], _kind(request.target)
    if kind and known.needs_program:
        raise _NoAnswerError(f"a {kind} cannot answer `{known.name}`: name the model file")
    if kind == "saved report":
        return _saved_report(request.target), 0
    outcome = read_trace(TraceChoice((request.target,))) if kind == "trace" else _run(request, asked)
    if outcome.late:
        print_error(f"the run was ended after {request.timeout:g} s (--timeout)")
    return report(outcome.snapshot, outcome.machine, keys=known.keys), failure_status(outcome.snapshot)


def _run(request: Request, asked: Asked) -> Outcome:
    """Run the file for what the question needs."""
    import asyncio
    from dataclasses import replace

    from tcexplore.answers.questions import QUESTIONS
    from tcexplore.cli.check_command import make_job
    from tcexplore.cli.file_argument import model_python
    from tcexplore.cli.run_once import progress, run_once

    known = QUESTIONS[asked.question]
    quick = request.quick or not known.timed
    job = make_job(request._replace(quick=quick))
    job = replace(
        job, recompile_queries=asked.arguments if known.needs_program else (),
        try_recompile_fixes=known.name == "recompiles" and not request.quick,
    )  # fmt: skip
    python = model_python(request, job.file)
    with progress(sys.stderr) as line:
        return asyncio.run(run_once(job, request.timeout, line, python))


def _saved_report(path: str) -> Fields:
    """Return a report of `check --json`. Raises `_NoAnswerError`."""
    import json

    from tcexplore.answers.questions import STATUS
    from tcexplore.files import NotWrittenError, read
    from tcexplore.report.json_report import SCHEMA

    try:
        saved: Fields = json.loads(read(path))
        schema = saved["schema"]
    except NotWrittenError as error:
        raise _NoAnswerError(str(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _NoAnswerError(f"{path} is not a report of `tcexplore check --json`.") from None
    if schema != SCHEMA or not saved.keys() >= STATUS:
        raise _NoAnswerError(f"{path} has schema {schema}, not {SCHEMA}, or is a part of a report: write a new one.")
    return saved
