"""An assembling process forked from the run's: it has torch already, which a new Python takes seconds to import."""

from __future__ import annotations

import faulthandler
import os
import signal
import traceback
import warnings
from collections.abc import Iterable
from typing import IO

from tcexplore.targets.assembler import assembler_env
from tcexplore.worker import process_setup as process


class Forked:
    """A child of this process, and pipes to it; `returncode` is its exit status or minus a signal, once waited for."""

    def __init__(self, pid: int, requests: int, answers: int) -> None:
        self.stdin = os.fdopen(requests, "w")
        self.stdout = os.fdopen(answers)
        self.returncode: int | None = None
        self._pid = pid

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int:
        """The exit status, once there is one."""
        return self._waited(0) or 0

    def terminate(self) -> None:
        """Ask it to end."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGTERM)

    def _waited(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self._pid, options)
            except ChildProcessError:  # the user's program waits for all children, or for none
                pid, status = self._pid, 0
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def forked(said: IO[str]) -> Forked:
    """Fork now. To be called before anything watches this process, and before the user's program runs: a child would
    emit as if it were the run, and have the locks of threads that it has not."""
    parent = os.getpid()
    (read, requests), (answers, write) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, for a fork beside idle threads
        pid = os.fork()
    if pid == 0:
        _assemble(parent, read, write, said.fileno())
    os.close(read)
    os.close(write)
    return Forked(pid, requests, answers)


def _assemble(parent: int, read: int, write: int, said: int) -> None:
    """The child's life; does not return."""
    status = 1
    try:
        faulthandler.unregister(signal.SIGTERM)
        faulthandler.disable()
        process.die_with_parent(parent)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (said, 1), (said, 2)):
            os.dup2(source, target)
        _close_all_but({0, 1, 2, read, write})
        os.environ.update(assembler_env())
        from tcexplore.targets.assembler_process import serve

        with os.fdopen(read) as requests, os.fdopen(write, "w") as answers:
            serve(requests, answers)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    """The protocol's socket would stay open with this process."""
    low = 0
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        if low < descriptor:  # an empty range is taken for all that there are
            os.closerange(low, descriptor)
        low = descriptor + 1
