"""A command of the user that runs with TORCH_TRACE: started, signaled, and ended with all its processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from tcexplore.events import Failed
from tcexplore.processes import descendants

TRACE_VARIABLE = "TORCH_TRACE"

STDOUT, STDERR = "job.stdout", "job.stderr"
"""Files in the trace's folder that hold the output of a job that the app shows."""

END_S = 5.0
"""Seconds that a job has to end by itself before it is killed."""

_PR_SET_PDEATHSIG = 1


class JobStartError(Exception):
    """The command cannot be started; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TracedJob:
    """One command. Unless `detach`ed, it ends with this process."""

    def __init__(self, command: Sequence[str], folder: str | None, *, detach: bool = False) -> None:
        """`folder` is that of the trace, a new temporary one if None. Raise `OSError` if it cannot be created."""
        self.command = tuple(command)
        self.detach = detach
        if folder is None:
            folder = os.environ.get(TRACE_VARIABLE) or tempfile.mkdtemp(prefix="tcexplore-run-")
        self.folder = os.path.abspath(os.path.expanduser(folder))
        os.makedirs(self.folder, exist_ok=True)
        self.earlier = frozenset(entry.path for entry in os.scandir(self.folder))
        """Files that were in the folder before: they are of other jobs."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, capture: bool, held: bool = False) -> None:
        """Start the command with this process's streams; `capture` sends its output to files in the folder instead.

        A `held` command waits for a line on stdin, which `release` sends. Raise `JobStartError`.
        """
        from tcexplore.traces.collective_records import recorder_variables  # each `check` imports this module, too

        environment = {**os.environ, TRACE_VARIABLE: self.folder, **recorder_variables(self.folder, os.environ)}
        outputs: list[int] = []
        if capture:
            environment.setdefault("PYTHONUNBUFFERED", "1")  # into a file, Python would write late
            outputs = [_output_file(os.path.join(self.folder, name)) for name in (STDOUT, STDERR)]
        try:
            self._process = subprocess.Popen(
                self.command, env=environment, start_new_session=self.detach,
                process_group=None if self.detach else 0,
                preexec_fn=None if self.detach else _prepare(os.getpid(), terminal=not capture),
                stdin=subprocess.PIPE if held else subprocess.DEVNULL if capture else None,
                stdout=outputs[0] if capture else None, stderr=outputs[1] if capture else None,
            )  # fmt: skip
        except FileNotFoundError:
            raise JobStartError(f"{self.command[0]}: command not found", 127) from None
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise JobStartError(f"{self.command[0]}: {reason}", 126) from None
        finally:
            for descriptor in outputs:
                os.close(descriptor)

    def release(self) -> None:
        """Let a held command continue."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"\n")
                self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Process id of the command."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the command runs."""
        return self._process.poll() if self._process is not None else None

    def failure(self) -> Failed | None:
        """Return the failure of a command that has ended with one."""
        status = self.status()
        if not status:
            return None
        kind = f"exit status {status}" if status > 0 else f"signal {-status}"
        return Failed(stage="worker", blame="user", type=kind, message=f"The job ended with {kind}; see its output.")

    def wait(self) -> int:
        """Wait for the end of the command and return its status; stop and continue with it."""
        assert self._process is not None, "it was started"
        while self._process.returncode is None:
            _, status = os.waitpid(self.pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                self._stop_too()
            else:
                self._process.returncode = os.waitstatus_to_exitcode(status)
        take_terminal(os.getpgrp())
        return self._process.returncode

    def _stop_too(self) -> None:
        take_terminal(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        take_terminal(self.pid)
        self.send(signal.SIGCONT, everywhere=True)

    def send(self, number: int, *, everywhere: bool = False) -> None:
        """Send a signal to the command, or to all processes of its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if everywhere else os.kill)(self.pid, number)

    def end(self) -> None:
        """End all processes of the command, unless it is detached."""
        if self.detach or self._process is None:
            return
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._process.poll() is not None:
            self.send(signal.SIGKILL, everywhere=True)
            return
        # torchrun starts its workers in separate sessions: they would survive it if it must be killed.
        workers = _open_descendants(self.pid)
        self.send(signal.SIGTERM, everywhere=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self.send(signal.SIGKILL, everywhere=True)
        self._process.wait()
        for descriptor in workers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


def take_terminal(group: int) -> None:
    """Make a process group the one that reads the terminal, if stdin is one that this job may use."""
    if not sys.stdin or not sys.stdin.isatty():
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, group)
    signal.signal(signal.SIGTTOU, before)


def _open_descendants(pid: int) -> list[int]:
    """Return a descriptor of each process that descends from a process; none except on Linux."""
    if sys.platform != "linux":
        return []
    descriptors = []
    for process_id, _ in descendants(pid):
        with contextlib.suppress(OSError):
            descriptors.append(os.pidfd_open(process_id))
    return descriptors


def _output_file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)


def _prepare(parent: int, *, terminal: bool) -> Callable[[], None]:
    """Return what the child does before it becomes the command: take the terminal, and end with this process."""
    foreground = False
    with contextlib.suppress(OSError):
        foreground = terminal and os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        if foreground:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)

    return prepare
