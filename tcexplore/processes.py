"""Other processes: one that is run for its answer, some that share work, and the end of all that this one started."""

from __future__ import annotations

import ctypes
import gc
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# ---- a program that is run for its answer


MOST_BYTES = 1 << 20
"""Default limit of each stream."""

_LINGER_S = 0.5
"""Seconds to read on after the program has ended: a process that it started may hold its pipes open."""

_CHUNK = 1 << 16


class BoundedOutput(NamedTuple):
    """What a program wrote, and how it ended."""

    status: int
    """Exit status; negative for a signal."""
    output: bytes
    errors: bytes
    pid: int


class NoAnswerError(Exception):
    """A program was killed, since it exceeded a limit; the message is a verb phrase: `gives no answer within 20 s`."""


def run_bounded(
    command: Sequence[str],
    seconds: float,
    *,
    most_bytes: int = MOST_BYTES,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> BoundedOutput:
    """Return what a program answers. Its process group is killed at the end. Raises `OSError` or `NoAnswerError`."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
        env=env, cwd=cwd, bufsize=0,
    ) as process:  # fmt: skip
        try:
            return _read(process, seconds, most_bytes)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _read(process: subprocess.Popen[bytes], seconds: float, most_bytes: int) -> BoundedOutput:
    assert process.stdout is not None, "both streams are pipes"
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    output, errors = texts.values()
    deadline, ended = time.monotonic() + seconds, False
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            # A program that has ended leaves its pipes open if another process has them.
            for key, _ in selector.select(min(0.05, max(0.0, deadline - time.monotonic()))):
                chunk = os.read(key.fd, _CHUNK)
                texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                if len(texts[key.fd]) > most_bytes:
                    raise NoAnswerError(f"writes more than {most_bytes >> 10:,} KiB")
            if not ended and process.poll() is not None:
                ended, deadline = True, min(deadline, time.monotonic() + _LINGER_S)
            if time.monotonic() >= deadline:
                break
    if not ended:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise NoAnswerError(f"gives no answer within {seconds:g} s") from None
    return BoundedOutput(process.returncode, bytes(output), bytes(errors), process.pid)


# ---- processes that share work


MOST_SHARES = 4
"""Processes among which work is shared at most: each one costs memory, and more save little of the time."""

Item = TypeVar("Item")


def shares() -> int:
    """Return among how many forked processes work can be shared: 1 if none may be forked, or would have no core.

    A lock that another thread of this process holds would stay locked in a forked one.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_SHARES)


_connections: set[Connection[Any, Any]] = set()
"""This process's ends of pipes to forked processes. A forked one closes them: they would hide that a process ended."""


class Forked(Generic[Item]):
    """Iterables that are computed in a forked process each. Their items come in the order in which they are ready.

    The processes begin at once, and end with the `with` block. An item must be one that `pickle` knows. If a process
    cannot be forked, raises, or is killed, the items that it has not sent are missing, and `failure` says why.
    """

    def __init__(self, parts: Iterable[Iterable[Item]]) -> None:
        self._pids: dict[Connection[Any, Any], int] = {}
        self._items: deque[Item] = deque()
        """Received, and not yet taken."""
        self._lock = threading.Lock()
        """Held while items are received, or an ended process is waited for."""
        self.failure = ""
        """How a process failed, as a sentence; empty if none did."""
        try:
            for part in parts:
                self._fork(part)
        except OSError as error:
            self.failure = f"a process cannot be forked: {error.strerror}"

    def _fork(self, part: Iterable[Item]) -> None:
        from multiprocessing.connection import Pipe  # most processes never fork

        gc.freeze()  # a collection writes to each object, and so copies the memory that processes share
        receiving, sending = Pipe(duplex=False)
        try:
            pid = os.fork()
        except OSError:
            receiving.close()
            sending.close()
            raise
        if pid:
            sending.close()
            _connections.add(receiving)
            self._pids[receiving] = pid
            return
        status = 1
        try:
            gc.disable()
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is for the parent to report
            _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for connection in (receiving, *_connections):
                connection.close()
            _connections.clear()
            _connections.add(sending)
            for item in part:
                sending.send(item)
            status = 0
        finally:
            os._exit(status)  # without the exit handlers and the buffers of the parent, and without a traceback

    def __enter__(self) -> Forked[Item]:
        return self

    def __iter__(self) -> Iterator[Item]:
        """Yield the items that are not yet taken."""
        while self._items or self._pids:
            if self._items:
                yield self._items.popleft()
                continue
            with self._lock:
                self._receive()

    def _receive(self) -> None:
        """Wait for items, and receive one of each process that has some. Remove the processes that ended."""
        from multiprocessing.connection import wait

        for connection in cast("list[Connection[Any, Any]]", wait(list(self._pids)) if self._pids else []):
            try:
                self._items.append(connection.recv())
            except (EOFError, OSError):  # an error if it was killed while it sent an item
                self._wait_for(connection)

    def _wait_for(self, connection: Connection[Any, Any]) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(self._pids.pop(connection), 0)[1])
        connection.close()
        _connections.discard(connection)
        if status:
            self.failure = f"a forked process ended with status {status}"

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that are left; another thread may wait for their items."""
        for pid in list(self._pids.values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with self._lock:
            for connection in list(self._pids):
                self._wait_for(connection)


@contextmanager
def beside(work: Callable[[], Item]) -> Iterator[Callable[[], Item]]:
    """Do work in a forked process during the block; yield a function that waits for its result.

    If no process can be forked, or if it fails, that function does the work here.
    """
    if shares() < 2:
        yield work
        return
    with Forked([(do() for do in (work,))]) as forked:

        def result() -> Item:
            for item in forked:
                return item
            return work()

        yield result


# ---- the end by a deadline


END_S = 1.25
"""Seconds for the program to end by itself after the user or a signal asked for it. What is left of the 2 s that are
promised goes to the end of the processes, which takes half a second on a busy machine."""

_PR_SET_PDEATHSIG = 1
"""Of `prctl`: the signal that this process gets when its parent ends."""

_PR_SET_CHILD_SUBREAPER = 36

_temporary_folders: set[str] = set()


def make_temporary_folder(purpose: str) -> str:
    """Return a new empty folder, which is also removed if this process ends by its deadline."""
    folder = tempfile.mkdtemp(prefix=f"tcexplore-{purpose}-")
    _temporary_folders.add(folder)
    return folder


def remove_temporary_folder(folder: str) -> None:
    """Remove a folder that `make_temporary_folder` made."""
    shutil.rmtree(folder, ignore_errors=True)
    _temporary_folders.discard(folder)


class Deadline:
    """Ends the process with all its descendants unless it has ended by itself, or `cancel` was called."""

    def __init__(self, restore: Callable[[], None] | None = None, keep: Iterable[int] = ()) -> None:
        """`restore` restores the terminal once the processes have ended. Those in `keep`, and theirs, are not ended."""
        self._restore = restore
        self._keep = frozenset(keep)
        self._cancelled = threading.Event()
        self._begun = False

    def begin(self, status: int, seconds: float = END_S) -> None:
        """End the process with `status` in so many seconds. Later calls change nothing. Safe in a signal handler."""
        if self._begun:
            return
        self._begun = True
        # A daemon: it works until the interpreter is finalized, and the program does not wait for it.
        threading.Thread(target=self._wait, args=(status, seconds), name="deadline", daemon=True).start()

    def cancel(self) -> None:
        """Let the program take its time from now on."""
        self._cancelled.set()

    def _wait(self, status: int, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            return
        try:
            kill_descendants(self._keep)
            if self._restore is not None:
                self._restore()
            for folder in tuple(_temporary_folders):
                remove_temporary_folder(folder)
        finally:
            os._exit(status)


def kill_descendants(keep: Iterable[int] = (), number: int = signal.SIGKILL) -> None:
    """Send a signal, SIGKILL by default, to the process groups of all descendants. Does nothing except on Linux."""
    kept = frozenset(keep)
    own = os.getpgrp()
    for pid, group in descendants(os.getpid(), kept):
        # A group may have members outside of this process's descendants only if it is this process's own.
        with suppress(ProcessLookupError, PermissionError):
            if group != own:
                os.killpg(group, number)
            else:
                os.kill(pid, number)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, to end them too. Does nothing except on Linux."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)


def _control(option: int, value: int) -> None:
    """Set an option of this process; does nothing except on Linux."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def has_descendants() -> bool:
    """Return whether a descendant of this process runs; False except on Linux."""
    return bool(descendants(os.getpid()))


def descendants(pid: int, keep: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
    """Return process id and group of each descendant of a process, without those in `keep` and theirs."""
    children: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{entry}/stat", "rb") as file:
                # The process name in parentheses may contain spaces and parentheses.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
                if state == b"Z":
                    continue
                children.setdefault(int(parent), []).append((int(entry), int(group)))
    found: list[tuple[int, int]] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child[0] not in keep:
                found.append(child)
                waiting.append(child[0])
    return found
