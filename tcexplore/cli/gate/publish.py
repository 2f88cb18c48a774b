"""Printing of a run, and the reports for CI systems."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable
from functools import partial

from tcexplore.cli.error_line import USER_ERROR, print_error
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.gate.judge import GateFiles, MeasureAgain, judge, status
from tcexplore.cli.request import Outputs, Request
from tcexplore.files import NotWrittenError, create, require_unused
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Outcome

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file that GitHub shows on the page of a job."""


def require_outputs(outputs: Outputs, sources: Iterable[str | None]) -> None:
    """Raise `BadFileError` if a report cannot be written, or would replace a source of the run."""
    paths = [path for path in (outputs.sarif, outputs.junit, outputs.gitlab, outputs.markdown) if path]
    kept = {os.path.realpath(source) for source in sources if source and os.path.exists(source)}
    for path in paths:
        try:
            require_unused(path, force=True)
        except NotWrittenError as error:
            raise BadFileError(str(error)) from None
        if os.path.realpath(path) in kept:
            raise BadFileError(f"{path} is also used for something else.", "Choose another name for the report.")
        kept.add(os.path.realpath(path))
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise BadFileError(f"The folder of {path} does not exist.")


def publish(
    request: Request, outcome: Outcome, files: GateFiles | None = None, measure_again: MeasureAgain | None = None
) -> int:
    """Print the run, write the reports, and return the exit status."""
    result = judge(request, outcome, files, measure_again=measure_again)
    on_github = request.outputs.github
    if on_github and not request.json:
        from tcexplore.report.ci_formats import stop_commands

        stop, resume = stop_commands()
        sys.stdout.write(f"{stop}\n")
        _print(request, outcome, result)
        sys.stdout.write(f"{resume}\n")
    else:
        _print(request, outcome, result)
    for note in result.notes:
        print_error(note)
    written = _write_reports(request, outcome.snapshot, result) if request.outputs != Outputs() else True
    sys.stdout.flush()
    return status(result, outcome.snapshot) or (0 if written else USER_ERROR)


def _print(request: Request, outcome: Outcome, result: GateResult) -> None:
    limits = result.sentences
    if request.json:
        from tcexplore.report.json_report import report

        json.dump(report(outcome.snapshot, outcome.machine, limits, request.calls), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    from tcexplore.report.check_report import check_report, summary_report
    from tcexplore.report.printed import print_document

    build = summary_report if request.outputs.summary else check_report
    print_document(partial(build, outcome.snapshot, outcome.machine, limits, request.calls))


def _write_reports(request: Request, snapshot: Snapshot, result: GateResult) -> bool:
    """Write the chosen reports; return whether all were written."""
    from tcexplore.documents.locations import display_path
    from tcexplore.report.ci_formats import ci_issues, gitlab, junit, markdown, sarif, workflow_commands

    outputs, path = request.outputs, display_path(snapshot.file)
    results = ci_issues(snapshot, result)
    written = True
    contents: tuple[tuple[str | None, Callable[[], str]], ...] = (
        (outputs.sarif, lambda: sarif(results, snapshot)),
        (outputs.junit, lambda: junit(results, result, snapshot, path)),
        (outputs.gitlab, lambda: gitlab(results)),
        (outputs.markdown, lambda: markdown(results, result, snapshot, path)),
    )
    for file, content in contents:
        try:
            if file is not None:
                create(file, content(), force=True)
        except NotWrittenError as error:
            print_error(str(error))
            written = False
    if outputs.github:
        # JSON on stdout stays valid; GitHub reads commands from both streams.
        (sys.stderr if request.json else sys.stdout).writelines(f"{line}\n" for line in workflow_commands(results))
        if summary := os.environ.get(STEP_SUMMARY):
            written &= _append(summary, markdown(results, result, snapshot, path))
    return written


def _append(path: str, text: str) -> bool:
    """Append to a file that other steps write to as well; return whether that worked."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "ab") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(0, "it is not a regular file")
            opened.write(text.encode("utf-8", "replace"))
    except OSError as error:
        print_error(f"{path} ({STEP_SUMMARY}) cannot be written: {error.strerror}")
        return False
    return True
