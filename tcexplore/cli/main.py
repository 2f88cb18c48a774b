"""The entry point: parse, then hand over to the front end that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from tcexplore.cli.arguments import parse
from tcexplore.cli.request import Request
from tcexplore.studies.registry import STUDIES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    0 done and within limits, 1 a limit was exceeded, 2 the user's file or the arguments are at fault, 3 the
    compiler or the worker failed, 130 interrupted.
    """
    _never_fail_to_print()
    try:
        request = parse(sys.argv[1:] if arguments is None else arguments)
        return _COMMANDS[request.command](request)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output left. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _never_fail_to_print() -> None:
    """A terminal or pipe that cannot encode a character shows `?` for it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _app(request: Request) -> int:
    from tcexplore.cli.tty import why_no_screen

    reason = why_no_screen()
    if reason is None:
        from tcexplore.cli.explore_command import explore

        return explore(request)
    sys.stderr.write(f"tcexplore: {reason}, so this is the report of one run (tcexplore check)\n")
    return _check(request)


def _check(request: Request) -> int:
    from tcexplore.cli.check_command import check

    return check(request)


def _study(request: Request) -> int:
    from tcexplore.cli.study_command import study

    return study(request)


def _export(request: Request) -> int:
    from tcexplore.cli.export_command import export

    return export(request)


def _doctor(_: Request) -> int:
    from tcexplore.doctor import doctor

    return doctor()


_COMMANDS: dict[str, Callable[[Request], int]] = {
    "app": _app, "check": _check, "export": _export, "doctor": _doctor, **{entry.name: _study for entry in STUDIES},
}  # fmt: skip
