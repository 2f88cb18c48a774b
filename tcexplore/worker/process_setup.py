"""Prepare a process for user code: its parent, its standard streams, its crash report, the memory of its frames."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tcexplore.capture.time_limit import report_crashes_to

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

FRAME_SLOTS = 65_600
"""Values in a frame of just over 512 KiB."""

T = TypeVar("T")

front_end: int | None = None
"""Process id of the front end that this worker and all that it forks belong to; None outside of a worker."""


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, `parent`, ends. Does nothing except on Linux."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform == "linux" and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def outlive_parent() -> None:
    """Undo `die_with_parent` for a process that must end its children first."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, to find and end them. Does nothing except on Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def prefer_oom_kill() -> None:
    """When memory runs out, have the kernel kill this process, not the terminal app or the user's editor."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
        adjustment.write("1000")


def unshare_progress_bars() -> Any:
    """Give tqdm, which each compile uses, a lock of this process; return its class, None if it is not imported.

    Its own lock is shared by all forked processes: a run killed while it holds it would hang all later ones. Since
    Python 3.14, it also has a name on the system, which a killed run leaves behind.
    """
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None:
        bars.set_lock(threading.RLock())
    return bars


def redirect_stdio(stdout: int, stderr: int) -> None:
    """Make standard input empty, and send line-buffered output to the pipes."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
        os.close(source)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def close_all_but(descriptors: Iterable[int]) -> None:
    """Close all other descriptors, most importantly a run's socket and pipes, whose end the front end waits for."""
    low = 0
    for descriptor in (*sorted(descriptors), os.sysconf("SC_OPEN_MAX")):
        if low < descriptor:  # closerange closes everything if the range is empty
            os.closerange(low, descriptor)
        low = descriptor + 1


def flush_output() -> None:
    """Flush standard output and error, which the program may have closed or replaced by anything."""
    for name in ("stdout", "stderr"):
        with contextlib.suppress(BaseException):
            getattr(sys, name).flush()


def reopen_stdio() -> None:
    """Open the standard descriptors that the program closed: the next file that opens would get its output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # opens the lowest free descriptor


def discard_output() -> None:
    """Discard further output of the program: calls are repeated for timing, and their output is not new."""
    flush_output()
    reopen_stdio()
    with contextlib.suppress(OSError):  # no descriptor may be left
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)


def write_crash_traceback(descriptor: int) -> None:
    """On a fatal signal, and on SIGTERM, write the Python traceback to `descriptor` before the process ends."""
    report_crashes_to(descriptor)
    faulthandler.enable(descriptor)
    faulthandler.register(signal.SIGTERM, descriptor, chain=True)


def kill_group_after(listen: Callable[[], None]) -> None:
    """Call `listen` in a thread, and kill this process group when it returns because the front end is gone."""

    def wait() -> None:
        try:
            listen()
        finally:
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="tcexplore commands", daemon=True).start()


def call_with_frame_room(function: Callable[[], T]) -> T:
    """Call a function with 512 KiB in one piece for the frames of the calls inside it.

    CPython keeps frames in chunks of 16 KiB. A call at the end of a chunk maps another one, and its return unmaps it:
    7 µs instead of 0.03, for calls that depend on the depth of the stack. A compile has thousands of them, and a timed
    function may have one. For a frame of this size, CPython maps a chunk of 1 MiB, and later calls use the rest.
    """

    def call() -> T:
        return function()

    call.__code__ = call.__code__.replace(co_stacksize=FRAME_SLOTS)
    return call()
