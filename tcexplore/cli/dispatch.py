"""Parse the arguments and run the command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from tcexplore.cli.arguments import parse
from tcexplore.cli.file_argument import BadFileError, check_path, model_pythons, split
from tcexplore.cli.options import Request
from tcexplore.cli.terminal import hung_up, print_error, refuse, terminal_problem
from tcexplore.studies.registry import STUDIES

HUNG_UP = 129
"""Exit status if the terminal was closed, as after SIGHUP."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def dispatch(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    0 ok, 1 a limit was exceeded, 2 error in FILE, arguments or the output, 3 error in the compiler or the worker,
    130 interrupted.
    """
    _prepare_streams()
    _leave_removed_folder()
    try:
        try:
            request = parse(sys.argv[1:] if arguments is None else arguments)
            return _COMMANDS[request.command](request)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return 141
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        status = refuse(f"the report cannot be written to standard output: {error.strerror}")
        _discard_stdout()
        return status


def _discard_stdout() -> None:
    """Discard the remaining output: flushing it at exit would print another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_removed_folder() -> None:
    """Go to the root if the working folder was removed: no relative path could be resolved."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _prepare_streams() -> None:
    """Replace closed streams, and print `?` for characters that the terminal or the pipe cannot encode."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  it stays open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _app(request: Request) -> int:
    problem = terminal_problem()
    if problem is not None and hung_up():
        return HUNG_UP
    if problem is None and request.fake is not None:
        from tcexplore.cli.open_command import explore_ranks

        return explore_ranks(request)
    if problem is None:
        return explore(request)
    print_error(f"{problem}; running `tcexplore check` instead")
    return _check(request)


def explore(request: Request) -> int:
    """Open the app on the file until the user quits; return the exit status.

    The app also opens an empty or broken file, since the user can fix it. A missing file is an error.
    """
    try:
        path, name = split(request.target)
        check_path(path)
        pythons = model_pythons(request, path)
    except BadFileError as error:
        return refuse(error.sentence)
    from tcexplore.ui.run_app import run_app

    return run_app(path, name, request, pythons)


def _check(request: Request) -> int:
    if request.fake is not None:
        from tcexplore.cli.open_command import check_ranks

        return check_ranks(request)
    from tcexplore.cli.check_command import check
    from tcexplore.cli.open_command import is_trace, report_trace

    return report_trace(request) if is_trace(request.target) else check(request)


def _imported(place: str) -> Callable[[Request], int]:
    """Return a command that imports its `module:function` when it runs."""
    module, _, name = place.partition(":")

    def run(request: Request) -> int:
        status: int = getattr(import_module(f"tcexplore.cli.{module}"), name)(request)
        return status

    return run


_COMMANDS: dict[str, Callable[[Request], int]] = {
    "app": _app,
    "ask": _imported("ask_command:ask"),
    "check": _check,
    "config": _imported("config_command:show_config"),
    "diff": _imported("diff_command:diff"),
    "doctor": _imported("doctor_command:doctor"),
    "export": _imported("export_command:export"),
    "mcp": _imported("mcp_command:serve_mcp"),
    "open": _imported("open_command:open_trace"),
    "run": _imported("run_command:run_job"),
    "serve": _imported("serve_command:serve"),
    "serve-session": _imported("session_command:serve_session"),
    **{entry.name: _imported("study_command:run_study_command") for entry in STUDIES},
}
