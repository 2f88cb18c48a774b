"""`python -m tcexplore`, and the `tcexplore` command."""

from __future__ import annotations

import signal

# Until `main` replaces it: Ctrl-C ends the process during the imports, without Python's traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys

from tcexplore.cli import main

if __name__ == "__main__":
    sys.exit(main())
