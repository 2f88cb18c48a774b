"""`--ranks N`: a script as each of several ranks on one machine, without communication."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

from tcexplore.cli.error_line import USER_ERROR, print_error, refuse
from tcexplore.cli.file_argument import BadFileError, model_python
from tcexplore.cli.request import Request, TraceChoice
from tcexplore.model_python import ModelPython
from tcexplore.traced_job import TRACE_VARIABLE


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
        python = model_python(request.python, request.target)
    except BadFileError as error:
        return refuse(error.sentence)
    assert request.fake is not None, "the parser sets it"
    os.environ.update(python.environment())
    command = fake_ranks_command(request, python, "--standby")
    return run_ranks_app(request.target, command, request.fake.rank, request.appearance)


def check_ranks(request: Request) -> int:
    """Print the report of the ranks; the script's output goes to stderr. Return the exit status."""
    from tcexplore.cli.open_command import report_trace

    try:
        python = model_python(request.python, request.target)
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
