"""`python -m tcexplore`, and the `tcexplore` command."""

from __future__ import annotations

import sys


def _forget_working_folder() -> None:
    """Remove the working folder from the path: `python -m` adds it, and its modules would replace those of Python.

    It stays if tcexplore itself is imported from it.
    """
    import os  # Python has imported it at its start

    try:
        folder = os.getcwd()
    except OSError:
        return
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if folder != own:
        sys.path[:] = [path for path in sys.path if path not in ("", folder)]


_forget_working_folder()

import signal  # noqa: E402

# Until `main` replaces it: Ctrl-C ends the process during the imports, without Python's traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tcexplore.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
