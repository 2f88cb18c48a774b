"""`tcexplore ask`: one question about a model file, a trace or a saved report, answered briefly."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from dataclasses import replace

from tcexplore.answers.answer import Answer, Fields, render
from tcexplore.answers.questions import QUESTIONS, STATUS, Asked, answer, asked_of
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError, model_python
from tcexplore.cli.open_command import TraceChoiceError, is_trace, read_trace
from tcexplore.cli.options import Question, Request, TraceChoice
from tcexplore.cli.run_once import EndedBySignalError, progress, run_once
from tcexplore.cli.terminal import USER_ERROR, print_error, refuse
from tcexplore.files import NotWrittenError, read
from tcexplore.report.json_report import SCHEMA, report
from tcexplore.studies.runs import Outcome, failure_status


class _NoAnswerError(Exception):
    """The source of the answer cannot be read."""


def ask(request: Request) -> int:
    """Answer the question; return the exit status."""
    wanted = request.question or Question()
    asked = asked_of(wanted.words, wanted.line, wanted.slowest)
    try:
        facts, status = _facts(request, asked)
        if wanted.against is not None:
            facts["before"] = _saved_report(wanted.against)
    except BadFileError as error:
        return refuse(error.sentence)
    except (TraceChoiceError, _NoAnswerError) as error:
        return refuse(str(error))
    except EndedBySignalError as ended:
        return ended.status
    known = answer(facts, asked)
    print_answer(request, wanted, known)
    return status or (USER_ERROR if known.problem else 0)


def print_answer(request: Request, wanted: Question, known: Answer) -> None:
    """Print an answer within the number of tokens that was asked for."""
    command = shlex.join(["tcexplore", "ask", request.target, *wanted.words])
    options = {"--line": wanted.line, "--slowest": wanted.slowest, "--against": wanted.against}
    command += "".join(f" {name} {value}" for name, value in options.items() if value is not None)
    sys.stdout.write(
        render(known, command, as_json=request.json, max_tokens=wanted.max_tokens, skip=wanted.skip)
    )  # fmt: skip


def _facts(request: Request, asked: Asked) -> tuple[Fields, int]:
    """Return the keys of the report that the question reads, and the exit status of the run."""
    question = QUESTIONS[asked.question]
    kind = "saved report" if request.target.endswith(".json") else "trace" if is_trace(request.target) else ""
    if kind and question.needs_program:
        raise _NoAnswerError(f"a {kind} cannot answer `{question.name}`: name the model file")
    if kind == "saved report":
        return _saved_report(request.target), 0
    outcome = read_trace(TraceChoice((request.target,))) if kind == "trace" else _run(request, asked)
    if outcome.late:
        print_error(f"the run was ended after {request.timeout:g} s (--timeout)")
    return report(outcome.snapshot, outcome.machine, keys=question.keys), failure_status(outcome.snapshot)


def _run(request: Request, asked: Asked) -> Outcome:
    """Run the file for what the question needs."""
    question = QUESTIONS[asked.question]
    quick = request.quick or not question.timed
    job = make_job(request._replace(quick=quick))
    job = replace(
        job, recompile_queries=asked.arguments if question.needs_program else (),
        try_recompile_fixes=question.name == "recompiles" and not request.quick,
    )  # fmt: skip
    python = model_python(request, job.file)
    with progress(sys.stderr) as line:
        return asyncio.run(run_once(job, request.timeout, line, python))


def _saved_report(path: str) -> Fields:
    """Return a report of `check --json`. Raises `_NoAnswerError`."""
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
