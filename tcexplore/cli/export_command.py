"""`tcexplore export`: one kernel as files."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from tcexplore.cli.check_command import make_job
from tcexplore.cli.error_line import print_error, refuse
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.progress_line import progress
from tcexplore.cli.python_argument import model_python
from tcexplore.cli.request import Request
from tcexplore.cli.run_once import EndedBySignalError, run_once
from tcexplore.events.clean_text import clean
from tcexplore.files import NotWrittenError, create_all
from tcexplore.session import Snapshot
from tcexplore.session.kernel_files import NoSuchKernelError, kernel_files
from tcexplore.studies.study_runs import failure_status


def export(request: Request) -> int:
    """Run the file once, write the kernel, print the paths; return the exit status."""
    export_request = request.export
    assert export_request is not None, "the parser sets it"
    try:
        job = replace(make_job(request), examine=False, runnable=True)
        python = model_python(request.python, job.file)
        with progress(sys.stderr) as line:
            outcome = asyncio.run(run_once(job, request.timeout, line, python))
    except BadFileError as error:
        return refuse(error.sentence)
    except EndedBySignalError as ended:
        return ended.status
    if (failure := outcome.snapshot.failure) is not None:
        print_error(f"{failure.message} {failure.hint}".strip())
        return failure_status(outcome.snapshot)
    try:
        files = kernel_files(outcome.snapshot, export_request.kernel)
        paths = create_all(export_request.folder, files, force=export_request.force, keep=_sources(outcome.snapshot))
    except (NoSuchKernelError, NotWrittenError) as error:
        return refuse(str(error))
    sys.stdout.writelines(f"{clean(str(path))}\n" for path in paths)
    return 0


def _sources(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the user's files that the run used."""
    return (snapshot.file, *snapshot.modules)
