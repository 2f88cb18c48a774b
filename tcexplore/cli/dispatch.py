"""Parse the arguments and run the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from tcexplore.cli.arguments import parse
from tcexplore.cli.request import Request
from tcexplore.studies.registry import STUDIES


def dispatch(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    0 ok, 1 a limit was exceeded, 2 error in FILE or arguments, 3 error in the compiler or the worker, 130 interrupted.
    """
    _replace_unencodable()
    try:
        request = parse(sys.argv[1:] if arguments is None else arguments)
        return _COMMANDS[request.command](request)
    except BrokenPipeError:
        # The reader closed the pipe. Python would print another error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _replace_unencodable() -> None:
    """Print `?` for characters that the terminal or the pipe cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _app(request: Request) -> int:
    from tcexplore.cli.explore_command import explore, terminal_problem

    problem = terminal_problem()
    if problem is None and request.fake is not None:
        from tcexplore.cli.fake_ranks_command import explore_ranks

        return explore_ranks(request)
    if problem is None:
        return explore(request)
    sys.stderr.write(f"tcexplore: {problem}; running `tcexplore check` instead\n")
    return _check(request)


def _check(request: Request) -> int:
    if request.fake is not None:
        from tcexplore.cli.fake_ranks_command import check_ranks

        return check_ranks(request)
    from tcexplore.cli.check_command import check
    from tcexplore.cli.open_command import is_trace, report_trace

    return report_trace(request) if is_trace(request.target) else check(request)


def _open(request: Request) -> int:
    from tcexplore.cli.open_command import open_trace

    return open_trace(request)


def _run(request: Request) -> int:
    from tcexplore.cli.run_command import run_job

    return run_job(request)


def _study(request: Request) -> int:
    from tcexplore.cli.study_command import run_study_command

    return run_study_command(request)


def _export(request: Request) -> int:
    from tcexplore.cli.export_command import export

    return export(request)


def _config(request: Request) -> int:
    from tcexplore.cli.config_command import show_config

    return show_config(request)


def _doctor(_: Request) -> int:
    from tcexplore.cli.doctor import doctor

    return doctor()


_COMMANDS: dict[str, Callable[[Request], int]] = {
    "app": _app, "check": _check, "export": _export, "config": _config, "doctor": _doctor, "open": _open, "run": _run,
    **{entry.name: _study for entry in STUDIES},
}  # fmt: skip
