"""Fork server that forks a process for each run, reports its exit, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import warnings
from pathlib import Path

from tcexplore.events import Failed
from tcexplore.events.commands import (
    RUN_DESCRIPTORS,
    OpenRun,
    RunExited,
    RunOpened,
    SignalRun,
    decode_worker_command,
)
from tcexplore.worker import process_setup
from tcexplore.worker.job_process import BROKEN, serve
from tcexplore.worker.link import Channel, receive


class ForkServer:
    """Serves the control socket until the front end is gone. Never runs user code itself."""

    def __init__(self, control: socket.socket, threads: int) -> None:
        self._control = control
        self._channel = Channel(control)
        self._threads = threads
        self._runs: dict[int, int] = {}
        """Number of each run by the process id of its child."""
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._wake_sender = wake

    def serve(self) -> None:
        """Fork and reap until the control socket is closed, then end every child."""
        process_setup.adopt_orphans()
        process_setup.outlive_parent()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_sender.fileno(), warn_on_full_buffer=False)
        try:
            while self._step():
                pass
        finally:
            self._end_all()

    def _step(self) -> bool:
        ready, _, _ = select.select([self._control, self._wake], [], [])
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
            self._reap()
        return self._control not in ready or self._handle_command()

    def _handle_command(self) -> bool:
        frame = receive(self._control, RUN_DESCRIPTORS)
        if frame is None:
            return False
        match decode_worker_command(frame.body):
            case OpenRun(number=number):
                self._fork(number, frame.descriptors)
            case SignalRun(number=number, signal=signal_number):
                self._signal(number, signal_number)
        return True

    def _fork(self, number: int, descriptors: tuple[int, ...]) -> None:
        server = os.getpid()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError as error:
            self._channel.send(_cannot_fork(error))
            pid = -1
        if pid == 0:
            self._become_run(server, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._runs[pid] = number
            self._channel.send(RunOpened(number=number, pid=pid))

    def _become_run(self, server: int, descriptors: tuple[int, ...]) -> None:
        """Serve one run in the child. Never return: the outer frames belong to the server."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for sock in (self._control, self._wake, self._wake_sender):
                sock.close()
            os.setsid()
            process_setup.die_with_parent(server)
            serve(descriptors, self._threads)
        finally:
            os._exit(BROKEN)

    def _signal(self, number: int, signal_number: int) -> None:
        for pid, run in self._runs.items():
            if run == number:
                _signal_group(pid, signal_number)

    def _reap(self) -> None:
        while True:
            try:
                # WNOWAIT: until the child is reaped, no other process gets its id, so killing its group is safe.
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            _signal_group(info.si_pid, signal.SIGKILL)
            _, status = os.waitpid(info.si_pid, 0)
            number = self._runs.pop(info.si_pid, None)
            if number is not None:
                self._end_orphans()
                self._channel.send(RunExited(number=number, code=os.waitstatus_to_exitcode(status)))

    def _end_orphans(self) -> None:
        """Kill processes that a run started in other process groups and that this process has adopted."""
        for pid in _children() - self._runs.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        for pid in self._runs:
            _signal_group(pid, signal.SIGKILL)
        self._end_orphans()
        with contextlib.suppress(ChildProcessError):
            while self._runs or _children():
                pid, _ = os.waitpid(-1, 0)
                self._runs.pop(pid, None)
                self._end_orphans()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _children() -> set[int]:
    """Return the process ids of this process's children, zombies included."""
    parent, children = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The process name in parentheses may contain spaces and parentheses.
            if stat.read_text().rpartition(")")[2].split()[1] == parent:
                children.add(int(stat.parent.name))
    return children


def _cannot_fork(error: OSError) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message=f"No process could be started for the run: {error.strerror}.",
        hint="The machine is out of memory or processes; close other programs and save again.",
        location=None,
        traceback=f"os.fork in {sys.executable}",
    )
