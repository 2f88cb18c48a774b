"""`tcexplore open`: the runs and ranks of a TORCH_TRACE, in the app or printed. `check` prints the same report."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError, model_python
from tcexplore.cli.options import Request, TraceChoice
from tcexplore.cli.terminal import USER_ERROR, print_error, refuse
from tcexplore.cli.trace_choice import TraceChoiceError, ask_job, choose
from tcexplore.model_python import ModelPython
from tcexplore.quantities import count
from tcexplore.traced_job import TRACE_VARIABLE
from tcexplore.ui.appearance import Appearance

if TYPE_CHECKING:
    from tcexplore.studies.runs import Outcome
    from tcexplore.traces.trace_job import TraceJob, TraceProcess

_URL_MARK = "://"
_NO_MODEL = (".log", ".gz", ".zst", ".tar", ".tgz", ".xz", ".bz2")
_PROFILE = (".json", ".json.gz", ".json.xz", ".json.bz2", ".json.zst")


def is_trace(target: str) -> bool:
    """Return whether the argument of `check` is a trace, not a model file."""
    if _URL_MARK in target or target.endswith(_NO_MODEL):
        return True
    try:
        if os.path.isdir(target):
            return any("torch_trace" in name or name.endswith(_NO_MODEL) for name in os.listdir(target))
        if target.endswith(_PROFILE):
            return _is_profile(TraceChoice((target,)))
        if target.endswith(".py") or not os.path.isfile(target):
            return False
        from tcexplore.traces.record_index import RecordIndex

        with open(target, "rb") as file:
            return not RecordIndex(file.read(64)).foreign_start()
    except PermissionError:
        return True  # the trace's reader says why


def open_trace(request: Request) -> int:
    """Open the app on the traces, or print a report without a terminal; return the exit status."""
    from tcexplore.cli.terminal import terminal_problem

    choice = request.trace
    assert choice is not None, "the parser sets it"
    if _is_profile(choice):
        from tcexplore.cli.profile_command import open_profile

        return open_profile(request)
    if choice.trace:
        return refuse("--trace goes with profiles: give the trace itself as PATH")
    if choice.records:
        return _write_records(choice)
    problem = None if choice.report else terminal_problem()
    if problem is not None:
        print_error(f"{problem}; printing a report instead")
    if choice.report or problem is not None:
        return report_trace(request)
    if choice.follow:
        return _follow(choice, request.appearance)
    try:
        opened, job = choose(choice, whole=False, ask=ask_job)
        against = TraceChoice((choice.against,)) if choice.against else None
        before = choose(against, whole=False, ask=ask_job)[1] if against else None
    except TraceChoiceError as error:
        return refuse(str(error))
    from tcexplore.ui.run_app import run_trace_app

    return run_trace_app(job, choice.rank, opened, before, request.appearance)


def _write_records(choice: TraceChoice) -> int:
    """Write all records of the chosen job into a folder; return the exit status."""
    from tcexplore.files import NotWrittenError, require_unused_folder
    from tcexplore.traces.record_files import SPANS, write_records

    try:
        require_unused_folder(choice.records)
        _, job = choose(choice)
        written = write_records(job, choice.records)
    except (TraceChoiceError, NotWrittenError) as error:
        return refuse(str(error))
    if written.unreadable:
        print_error(f"{count(written.unreadable, 'record')} cannot be decoded")
    print_error(f"{count(written.files, 'file')} in {choice.records}; open {SPANS} in https://ui.perfetto.dev")
    return USER_ERROR if written.unreadable else 0


def _follow(choice: TraceChoice, appearance: Appearance) -> int:
    """Open the app on a running job; return the exit status."""
    missing = [path for path in choice.paths if not os.path.exists(os.path.expanduser(path))]
    if missing:
        return refuse(f"{ev.clean(missing[0])} does not exist")
    from tcexplore.traces.followed_trace import FollowedTrace
    from tcexplore.ui.run_app import run_follow_app

    return run_follow_app(FollowedTrace(choice.paths, job=choice.job), choice.rank, None, appearance)


def _is_profile(choice: TraceChoice) -> bool:
    from tcexplore.profiles.profile_job import is_profile_path

    return any(path.endswith(_PROFILE) and is_profile_path(path) for path in choice.paths)


def report_trace(request: Request) -> int:
    """Print the report of a trace; return the exit status."""
    if _is_profile(request.trace or TraceChoice((request.target,))):
        from tcexplore.cli.profile_command import open_profile

        choice = request.trace or TraceChoice((request.target,))
        return open_profile(request._replace(trace=choice._replace(report=True)))
    from tcexplore.cli.gate import publish, read_gate_files, refuse_unread, require_outputs
    from tcexplore.fixes.known_fix import with_proposed_fixes
    from tcexplore.processes import beside
    from tcexplore.session.cache_misses import cache_misses
    from tcexplore.studies.runs import Outcome
    from tcexplore.traces.rank_comparison import compare_ranks
    from tcexplore.traces.trace_run import TraceRun, read_snapshot

    choice = request.trace or TraceChoice((request.target,))
    try:
        files = read_gate_files(request.limits, None)
        require_outputs(request.outputs, (*choice.paths, request.limits.allow, request.limits.baseline))
    except BadFileError as error:
        return refuse(error.sentence)
    try:
        opened, job = choose(choice)
        process = _process(job, choice.rank)
        earlier = read_trace(TraceChoice((choice.against,), rank=choice.rank)).snapshot if choice.against else None
    except TraceChoiceError as error:
        return refuse_unread(request, str(error))
    for problem in opened.problems:
        print_error(problem)
    run = TraceRun(process, 1, len(job.ranks))
    in_turns = request.fake is not None
    with beside(partial(compare_ranks, job, opened.problems, in_turns=in_turns, unread=opened.unread)) as compared:
        snapshot = read_snapshot(run)
        comparison = compared()
    if request.fake is not None and request.fake.rank is not None:
        comparison = replace(comparison, divergence=None)  # the other ranks are missing on purpose
    else:
        from tcexplore.traces.job_watch import with_processes

        comparison = with_processes(comparison, job)
    snapshot = with_proposed_fixes(replace(snapshot, rank_comparison=comparison))
    if earlier is not None:
        snapshot = replace(snapshot, cache_misses=cache_misses(snapshot, earlier))
    return publish(request, Outcome(snapshot, run.machine), files) or (USER_ERROR if opened.unread else 0)


def read_trace(choice: TraceChoice) -> Outcome:
    """Return the run of the chosen rank, without a comparison of the ranks. Raises `TraceChoiceError`."""
    from tcexplore.studies.runs import Outcome
    from tcexplore.traces.trace_run import TraceRun, read_snapshot

    _, job = choose(choice)
    run = TraceRun(_process(job, choice.rank), 1, len(job.ranks))
    return Outcome(read_snapshot(run), run.machine)


def _process(job: TraceJob, rank: int | None) -> TraceProcess:
    ranks = job.ranks
    if rank is not None and all(process.number != rank for process in ranks):
        known = ", ".join(str(process.number) for process in ranks[:20])
        raise TraceChoiceError(f"there is no rank {rank}; the trace has {known}")
    return job.process(rank)


def fake_ranks_command(request: Request, python: ModelPython, *options: str) -> tuple[str, ...]:
    """Return the command that runs the script as each rank, or as one."""
    assert request.fake is not None, "the parser sets it"
    rank = request.fake.rank
    chosen = () if rank is None else ("--rank", str(rank))
    arguments = (*options, "--world", str(request.fake.world), *chosen, request.target, *request.argv)
    return tuple(python.command("tcexplore.worker.fake_ranks", *arguments))


def explore_ranks(request: Request) -> int:
    """Show the ranks in the app on every save; return the exit status."""
    from tcexplore.ui.run_app import run_ranks_app

    try:
        python = model_python(request, request.target)
    except BadFileError as error:
        return refuse(error.sentence)
    assert request.fake is not None, "the parser sets it"
    os.environ.update(python.environment())
    command = fake_ranks_command(request, python, "--standby")
    return run_ranks_app(request.target, command, request.fake.rank, request.appearance)


def check_ranks(request: Request) -> int:
    """Print the report of the ranks; the script's output goes to stderr. Return the exit status."""
    try:
        python = model_python(request, request.target)
    except BadFileError as error:
        return refuse(error.sentence)
    command = fake_ranks_command(request, python)
    with tempfile.TemporaryDirectory(prefix="tcexplore-ranks-", ignore_cleanup_errors=True) as folder:
        environment = {**python.environment(), TRACE_VARIABLE: folder}
        job = subprocess.Popen(command, env=environment, stdout=sys.stderr, process_group=0)
        try:
            status = job.wait(request.timeout)
        except subprocess.TimeoutExpired:
            return refuse(f"the ranks took more than {request.timeout:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        if status:
            print_error(f"a rank ended with exit status {status}")
        reported = report_trace(request._replace(trace=TraceChoice((folder,), report=True)))
        return reported or (USER_ERROR if status else 0)
