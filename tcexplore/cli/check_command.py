"""`tcexplore check`: one run, printed."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import sys
import tempfile
from functools import partial

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError, model_python, read, split
from tcexplore.cli.gate import publish, read_gate_files, require_outputs
from tcexplore.cli.options import Request
from tcexplore.cli.run_once import EndedBySignalError, progress, run_once
from tcexplore.cli.terminal import refuse
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Outcome

REPORT = "tcexplore.report.check_report"
"""The module that prints the run."""

_NOT_IN_NAMES = r'[\\/:*?"<>|]'


def check(request: Request) -> int:
    """Run the file once and print the report; return the exit status."""
    try:
        job = make_job(request)
        python = model_python(request, job.file)
        files = read_gate_files(request.limits, request.config)
        require_outputs(request.outputs, (job.file, request.limits.allow, request.limits.baseline))
    except BadFileError as error:
        return _refuse(request, error)

    def measure(reason: str = "") -> Outcome:
        if request.quick and (known := _session_run(request, job)) is not None:
            return known
        with progress(sys.stderr) as line:
            if reason:
                line.print_line(reason)
            return asyncio.run(run_once(job, request.timeout, line, python, needed_later=REPORT))

    try:
        return publish(request, measure(), files, partial(measure, "a time is worse than in the baseline: once more"))
    except EndedBySignalError as ended:
        return ended.status


def _session_run(request: Request, job: ev.Job) -> Outcome | None:
    """Return the run of the session of the file, if there is one and it has the same options."""
    from tcexplore.answers.session_socket import NoSessionError, ask_session, question, run_options
    from tcexplore.events.codec import decode

    if request.recompile_check or request.limits.min_cache_hits is not None:
        return None
    options = run_options(job.config, job.name, job.argv)
    try:
        reply = ask_session(job.file, question((), "", whole=True, options=options), request.timeout, lambda _: None)
        run = decode(reply["run"].encode(), {"Snapshot": Snapshot})
        machine = decode(reply["machine"].encode(), {"Standby": ev.Standby}) if "machine" in reply else None
    except (NoSessionError, KeyError, ValueError, TypeError):
        return None
    return Outcome(run, machine if isinstance(machine, ev.Standby) else None)


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
        time_for=0.0 if request.quick else request.time_for,
        structure_only=request.quick,
        caches=_cache_folder() if request.limits.min_cache_hits is not None else "",
        recompile_queries=request.recompile_check,
        try_recompile_fixes=request.command == "check" and not request.quick,
    )


def _cache_folder() -> str:
    """Return torch's folder for compile caches."""
    if folder := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return os.path.abspath(folder)
    try:
        user = getpass.getuser()
    except (KeyError, ModuleNotFoundError, OSError):  # a container without a user database
        user = f"uid_{os.getuid()}"
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{re.sub(_NOT_IN_NAMES, '_', user)}")


def _refuse(request: Request, error: BadFileError) -> int:
    """Print the error on stderr, and also as JSON if that is requested; return the exit status."""
    status = refuse(error.sentence)
    if request.json:
        empty = Snapshot(run=1, file=request.target, source="", config=request.config)
        publish(Request("check", json=True), Outcome(empty.apply(error.failure)))
    return status
