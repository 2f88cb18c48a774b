"""`tcexplore export`: one kernel as files that run, build or disassemble it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.cli.check_command import make_job
from tcexplore.cli.file_argument import BadFileError, model_python
from tcexplore.cli.options import Request
from tcexplore.cli.run_once import EndedBySignalError, progress, run_once
from tcexplore.cli.terminal import print_error, refuse
from tcexplore.events import clean
from tcexplore.files import NotWrittenError, create_all
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.studies.runs import failure_status
from tcexplore.targets.target_names import NATIVE


def export(request: Request) -> int:
    """Run the file once, write the kernel, print the paths; return the exit status."""
    export_request = request.export
    assert export_request is not None, "the parser sets it"
    if export_request.perfetto or export_request.speedscope:
        from tcexplore.cli.profile_export import export_profile

        return export_profile(request.target, export_request)
    try:
        job = replace(make_job(request), examine=False, runnable=True)
        python = model_python(request, job.file)
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
        paths = create_all(export_request.to, files, force=export_request.force, keep=_sources(outcome.snapshot))
    except (NoSuchKernelError, NotWrittenError) as error:
        return refuse(str(error))
    sys.stdout.writelines(f"{clean(str(path))}\n" for path in paths)
    return 0


def _sources(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the user's files that the run used."""
    return (snapshot.file, *snapshot.modules)


ENDINGS = {"assembly": "s", "llir": "ll"}
"""File extensions of stages whose name differs from the extension."""

SOURCES = {"cpp": "cpp", "triton": "py"}


class NoSuchKernelError(LookupError):
    """The run has no such kernel, or it is extern; the message is for the user."""


def kernel_files(snapshot: Snapshot, name: str) -> dict[str, str]:
    """Return texts by file name; kernels of one name and different source get numbers.

    Raise `NoSuchKernelError` if there is no such kernel.
    """
    generated = [kernel for kernel in snapshot.code.kernels if kernel.language in SOURCES]
    kernels = list({kernel.source: kernel for kernel in generated if kernel.name == name}.values())
    if not kernels:
        known = ", ".join(dict.fromkeys(kernel.name for kernel in generated))
        raise NoSuchKernelError(
            f"there is no generated kernel called {name!r}{snapshot.for_target}: "
            + (f"use one of {known}" if known else "this run has none")
        )
    stems = [name] if len(kernels) == 1 else [f"{name}_{number}" for number in range(1, len(kernels) + 1)]
    return dict(file for stem, kernel in zip(stems, kernels, strict=True) for file in _files(snapshot, kernel, stem))


def _files(snapshot: Snapshot, kernel: ev.Kernel, stem: str) -> Iterator[tuple[str, str]]:
    runs = _runnable(snapshot, kernel)
    if runs is not None:
        yield f"{stem}.py", runs
    else:
        yield f"{stem}.{SOURCES[kernel.language]}", kernel.source
        if whole := _graph(snapshot, kernel):
            yield f"{stem}.graph.py", whole
    made = kernel_facts(snapshot.code, kernel).assembled
    for stage in made.stages if made else ():
        yield f"{stem}.{ENDINGS.get(stage.name, stage.name)}", stage.text


def _graph(snapshot: Snapshot, kernel: ev.Kernel) -> str | None:
    """Return the wrapper of a kernel for this machine, if it can create inputs and time itself."""
    for wrapper in snapshot.code.wrappers:
        if (wrapper.graph, wrapper.phase, wrapper.target) == (kernel.graph, kernel.phase, NATIVE):
            return wrapper.source if "def benchmark_compiled_module" in wrapper.source else None
    return None


def _runnable(snapshot: Snapshot, kernel: ev.Kernel) -> str | None:
    """Return the script of a kernel; forward and backward may have kernels of one name with different bodies."""
    body = kernel.source[kernel.source.find("@triton.jit") :].strip()
    candidates = (
        r
        for r in snapshot.kernel_scripts
        if (r.graph, r.kernel, r.target) == (kernel.graph, kernel.name, kernel.target)
    )
    return next((r.source for r in candidates if body in r.source), None)
