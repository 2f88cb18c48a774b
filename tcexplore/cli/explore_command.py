"""`tcexplore FILE`: the terminal app."""

from __future__ import annotations

import sys

from tcexplore.cli.file_argument import BadFileError, refuse, split
from tcexplore.cli.request import Request


def explore(request: Request) -> int:
    """Open the app on the file until the user leaves it; returns the exit status.

    An empty or broken file is opened too: it is there to be edited. A file that is not there is a mistake in the
    command line, said before the screen is taken.
    """
    try:
        path, name = split(request.target)
        refuse(path)
    except BadFileError as error:
        sys.stderr.write(f"tcexplore: {error.sentence}\n")
        return 2
    from tcexplore.ui.run_app import run_app

    return run_app(path, request.config, request.argv, name)
