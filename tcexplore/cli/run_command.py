"""`tcexplore run -- COMMAND`: the command with TORCH_TRACE, in the app, or with its output passed through."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from types import FrameType

from tcexplore import events as ev
from tcexplore.cli.options import Request
from tcexplore.cli.terminal import print_error, refuse, terminal_problem
from tcexplore.session import Snapshot
from tcexplore.traced_job import JobStartError, TracedJob
from tcexplore.ui.appearance import Appearance

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_LEAVING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class DetachError(Exception):
    """A signal ends tcexplore but not the detached job."""

    def __init__(self, number: int) -> None:
        self.number = number


def run_job(request: Request) -> int:
    """Run the command of the request; return its exit status."""
    launch = request.launch
    assert launch is not None, "the parser sets it"
    in_app = not request.json and terminal_problem() is None
    try:
        job = TracedJob(request.argv, launch.trace, detach=launch.detach)
        job.start(capture=in_app)
    except OSError as error:
        return refuse(f"{launch.trace}: {(error.strerror or str(error)).lower()}")
    except JobStartError as error:
        print_error(str(error))
        return error.status
    if in_app:
        return _show(job, request.appearance)
    if launch.trace is None:  # else, the user knows what to open while the job runs
        print_error(_place(job))
    return _pass_through(job, as_json=request.json)


def _show(job: TracedJob, appearance: Appearance) -> int:
    """Show the job in the app; end it with the app unless it is detached."""
    from tcexplore.traces.followed_trace import FollowedTrace
    from tcexplore.ui.run_app import run_follow_app

    try:
        left = run_follow_app(FollowedTrace([job.folder], job.earlier), None, job, appearance)
        status = job.status()
    finally:
        job.end()
    print_error(_place(job))
    if status is None:
        return 0 if job.detach else left
    return _leave(status)


def _pass_through(job: TracedJob, *, as_json: bool) -> int:
    """Wait for the job, which has this process's streams; then print what it compiled."""

    def forward(number: int, _: FrameType | None) -> None:
        if job.detach and number in _LEAVING:
            raise DetachError(number)
        job.send(number)

    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup; the job ignores it as well
            signal.signal(number, forward)
    try:
        status = job.wait()
    except DetachError as error:
        print_error(f"process {job.pid} goes on; {_place(job)}")
        return 128 + error.number
    _summarize(job, as_json=as_json)
    return _leave(status)


def _leave(status: int) -> int:
    """Return the job's status; end by the same signal if the job did."""
    if status >= 0:
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(ImportError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    return 128 - status


def _place(job: TracedJob) -> str:
    return f"tcexplore open {'--follow ' if job.status() is None else ''}{shlex.quote(job.folder)}"


def _summarize(job: TracedJob, *, as_json: bool) -> None:
    """Print one line on stderr, or the report as the last line of stdout."""
    from tcexplore.documents.ranks_view import summary_sentence
    from tcexplore.fixes.known_fix import with_proposed_fixes
    from tcexplore.traces.followed_trace import trace_files
    from tcexplore.traces.rank_comparison import compare_ranks
    from tcexplore.traces.trace_inputs import trace_inputs
    from tcexplore.traces.trace_job import NothingReadError, open_inputs
    from tcexplore.traces.trace_run import TraceRun, read_snapshot

    files = [path for path in trace_files([job.folder]) if path not in job.earlier]
    try:
        opened = open_inputs(trace_inputs(files))
    except NothingReadError:
        if as_json:
            nothing = Snapshot(run=1, file=job.command[0], source="", config=ev.Config(), trace="run", status="ok")
            _print_json(_with_failure(nothing, job))
        else:
            print_error("the job compiled nothing: torch wrote no trace")
        return
    trace = max(opened.jobs, key=lambda known: sum(len(process.index) for process in known.processes))
    comparison = compare_ranks(trace, opened.problems, unread=opened.unread)
    if not as_json:
        print_error(f"{summary_sentence(comparison)}; {_place(job)}")
        return
    run = TraceRun(trace.ranks[0], 1, len(trace.ranks))
    snapshot = with_proposed_fixes(replace(read_snapshot(run), rank_comparison=comparison))
    _print_json(_with_failure(snapshot, job), run.machine)


def _with_failure(snapshot: Snapshot, job: TracedJob) -> Snapshot:
    """Return what a job compiled, as a failed run if the job failed."""
    failure = job.failure()
    return snapshot if failure is None else replace(snapshot, status="failed", failure=failure)


def _print_json(snapshot: Snapshot, machine: ev.Standby | None = None) -> None:
    from tcexplore.report.json_report import report

    sys.stdout.write(json.dumps(report(snapshot, machine, [])) + "\n")
