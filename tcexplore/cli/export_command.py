"""`tcexplore export`: one kernel as files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import USER
from tcexplore.cli.progress_line import progress
from tcexplore.cli.request import Export, Request
from tcexplore.cli.run_once import EndedBySignalError, run_once
from tcexplore.session import Snapshot
from tcexplore.session.kernel_files import NoSuchKernelError, kernel_files
from tcexplore.studies.study_runs import failure_status


def export(request: Request) -> int:
    """Run the file once, write the kernel, print the paths; return the exit status."""
    export_request = request.export
    assert export_request is not None, "the parser sets it"
    try:
        job = replace(make_job(request), examine=False, runnable=True)
        with progress(sys.stderr) as line:
            outcome = asyncio.run(run_once(job, request.timeout, line))
    except BadFileError as error:
        return _refuse(error.sentence)
    except EndedBySignalError as ended:
        return ended.status
    if (failure := outcome.snapshot.failure) is not None:
        _refuse(f"{failure.message} {failure.hint}".strip())
        return failure_status(outcome.snapshot)
    try:
        for path in _write(outcome.snapshot, export_request):
            sys.stdout.write(f"{path}\n")
    except NoSuchKernelError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{export_request.folder} cannot be written to: {error.strerror}.")
    return 0


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"tcexplore: {sentence}\n")
    return USER


def _write(snapshot: Snapshot, export_request: Export) -> Iterator[Path]:
    """Write the kernel's files and yield their paths."""
    files = kernel_files(snapshot, export_request.kernel)
    folder = Path(export_request.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        yield path
