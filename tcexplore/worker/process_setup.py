"""What a process does to itself before it runs the user's code: its group, its descriptors, its death."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import os
import signal
import sys
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which must be its parent, ends. Linux only, else a no-op."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform == "linux" and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def outlive_parent() -> None:
    """Undo `die_with_parent`, for a process that has others to end first."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost sight of. Linux only."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def first_to_go() -> None:
    """When memory runs out, this process is the one to end, not the terminal app or the user's editor."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
        adjustment.write("1000")


def take_stdio(stdout: int, stderr: int) -> None:
    """Standard input is empty, output goes into the pipes, line by line."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
        os.close(source)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def be_quiet() -> None:
    """From here on what the program prints goes nowhere: a call that is repeated to be timed says nothing new."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def say_where_it_crashed(descriptor: int) -> None:
    """On a fatal signal, and on SIGTERM, write the Python traceback to `descriptor` before the process ends."""
    faulthandler.enable(descriptor)
    faulthandler.register(signal.SIGTERM, descriptor, chain=True)


def end_group_after(listen: Callable[[], None]) -> None:
    """Kill this process and its group when `listen` returns, which hears of the front end until that is gone."""

    def wait() -> None:
        try:
            listen()
        finally:
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="tcexplore hang-up", daemon=True).start()
