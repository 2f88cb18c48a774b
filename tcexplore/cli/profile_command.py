"""`tcexplore open PROFILE`: profiles of torch.profiler with the TORCH_TRACE of the job, in the app or printed."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.options import Request, TraceChoice
from tcexplore.cli.terminal import print_error, refuse, terminal_problem
from tcexplore.cli.trace_choice import TraceChoiceError, choose
from tcexplore.profiles.profile_job import ProfileJob, ProfileRun, is_profile_path, open_profiles
from tcexplore.profiles.profile_table import NoProfileError
from tcexplore.traces.trace_content import InputError


def open_profile(request: Request) -> int:
    """Open the app on profiles, or print a report without a terminal; return the exit status."""
    choice = request.trace
    assert choice is not None, "the parser sets it"
    problem = None if choice.report else terminal_problem()
    if problem is not None:
        print_error(f"{problem}; printing a report instead")
    if choice.report or problem is not None:
        return _report(request, choice)
    try:
        job = profile_job(choice)
    except TraceChoiceError as error:
        return refuse(str(error))
    from tcexplore.ui.run_app import run_profile_app

    return run_profile_app(job, choice.rank, request.appearance)


def profile_job(choice: TraceChoice) -> ProfileJob:
    """Return the chosen profiles with their trace. Raises `TraceChoiceError`."""
    profiles = [path for path in choice.paths if is_profile_path(path)]
    traces = [*(path for path in choice.paths if path not in profiles), *([choice.trace] if choice.trace else [])]
    try:
        job = open_profiles(profiles, print_error)
    except (InputError, NoProfileError) as error:
        raise TraceChoiceError(str(error)) from None
    if choice.rank is not None and choice.rank not in job.ranks:
        raise TraceChoiceError(f"there is no rank {choice.rank}; the profiles are of {', '.join(map(str, job.ranks))}")
    if traces:
        opened, job.trace = choose(TraceChoice(tuple(traces), job=choice.job))
        for message in opened.problems:
            print_error(message)
    return job


def _report(request: Request, choice: TraceChoice) -> int:
    from tcexplore.cli.gate import publish, read_gate_files, refuse_unread, require_outputs
    from tcexplore.studies.runs import Outcome
    from tcexplore.traces.rank_comparison import compare_ranks
    from tcexplore.traces.trace_run import read_snapshot

    try:
        files = read_gate_files(request.limits, None)
        require_outputs(request.outputs, (*choice.paths, request.limits.allow, request.limits.baseline))
        job = profile_job(choice)
        rank = choice.rank if choice.rank is not None else next(iter(job.ranks))
        run = ProfileRun(job, rank, 1)
        snapshot = read_snapshot(run)
    except BadFileError as error:
        return refuse(error.sentence)
    except (TraceChoiceError, NoProfileError, InputError) as error:
        return refuse_unread(request, str(error))
    if job.trace is not None and len(job.trace.ranks) > 1:
        snapshot = replace(snapshot, rank_comparison=compare_ranks(job.trace, []))
    if (ranks := job.compare()) is not None:
        snapshot = snapshot.apply(replace(ranks, run=1))
    return publish(request, Outcome(snapshot, run.machine), files)
