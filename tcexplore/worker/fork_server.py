"""The template: forks a process for each seat, tells how it ended, and leaves none behind."""

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
from tcexplore.events.commands import SEAT_DESCRIPTORS, Exited, Seat, Seated, Signal, decode_order
from tcexplore.worker import process_setup as process
from tcexplore.worker.job_process import BROKEN, serve
from tcexplore.worker.link import Channel, receive


class Template:
    """Serves the control socket until the front end is gone. Never runs the user's code itself."""

    def __init__(self, control: socket.socket, threads: int) -> None:
        self._control = control
        self._channel = Channel(control)
        self._threads = threads
        self._seats: dict[int, int] = {}
        """Seat of each child by its process id."""
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._wake_sender = wake

    def serve(self) -> None:
        """Fork and reap until the control socket is closed, then end every child."""
        process.adopt_orphans()
        process.outlive_parent()
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
        return self._control not in ready or self._obey()

    def _obey(self) -> bool:
        frame = receive(self._control, SEAT_DESCRIPTORS)
        if frame is None:
            return False
        match decode_order(frame.body):
            case Seat(seat=seat):
                self._fork(seat, frame.descriptors)
            case Signal(seat=seat, number=number):
                self._signal(seat, number)
        return True

    def _fork(self, seat: int, descriptors: tuple[int, ...]) -> None:
        template = os.getpid()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError as error:
            self._channel.send(_cannot_fork(error))
            pid = -1
        if pid == 0:
            self._become_run(template, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._seats[pid] = seat
            self._channel.send(Seated(seat=seat, pid=pid))

    def _become_run(self, template: int, descriptors: tuple[int, ...]) -> None:
        """The rest of the child's life. Nothing may return from here: the frames above belong to the template."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for sock in (self._control, self._wake, self._wake_sender):
                sock.close()
            os.setsid()
            process.die_with_parent(template)
            serve(descriptors, self._threads)
        finally:
            os._exit(BROKEN)

    def _signal(self, seat: int, number: int) -> None:
        for pid, taken in self._seats.items():
            if taken == seat:
                _signal_group(pid, number)

    def _reap(self) -> None:
        while True:
            try:
                # Look first: until it is waited for, the id cannot be anybody else's and its group can be ended.
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            _signal_group(info.si_pid, signal.SIGKILL)
            _, status = os.waitpid(info.si_pid, 0)
            seat = self._seats.pop(info.si_pid, None)
            if seat is not None:
                self._end_orphans()
                self._channel.send(Exited(seat=seat, code=os.waitstatus_to_exitcode(status)))

    def _end_orphans(self) -> None:
        """End what a run started in groups of their own and left to us."""
        for pid in _children() - self._seats.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        for pid in self._seats:
            _signal_group(pid, signal.SIGKILL)
        self._end_orphans()
        with contextlib.suppress(ChildProcessError):
            while self._seats or _children():
                pid, _ = os.waitpid(-1, 0)
                self._seats.pop(pid, None)
                self._end_orphans()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _children() -> set[int]:
    """Ids of this process's children, zombies among them."""
    me, found = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may itself hold spaces and parentheses.
            if stat.read_text().rpartition(")")[2].split()[1] == me:
                found.add(int(stat.parent.name))
    return found


def _cannot_fork(error: OSError) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message=f"No process could be started for the run: {error.strerror}.",
        hint="The machine is short of memory or processes; close something and save again.",
        location=None,
        traceback=f"os.fork in {sys.executable}",
    )
