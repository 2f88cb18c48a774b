"""Fork server that forks a process for each run, reports its exit, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace

from tcexplore.events import Failed
from tcexplore.events.codec import encode
from tcexplore.events.commands import (
    RUN_DESCRIPTORS,
    OpenRun,
    Prepare,
    Ready,
    RunExited,
    RunOpened,
    RunPrimed,
    SignalRun,
    WorkerStage,
    decode_worker_command,
    decode_worker_report,
)
from tcexplore.events.run_events import BROKEN_STATUS
from tcexplore.worker import fork_policy, priming, process_setup
from tcexplore.worker.job_process import serve
from tcexplore.worker.link import Channel, receive
from tcexplore.worker.loading import LoadedWorker
from tcexplore.worker.timing_process import TimingSeed, fork_seed

_exit = os._exit
"""The function that the model file may replace."""

DONE = object()
"""Marks the end of an iterator."""

LOW_PRIORITY = 10

LARGEST_LOSS = 2
"""Number of primed servers that may end unexpectedly before no other one is started."""


class PrimedServer:
    """A second fork server, forked from the first to be primed. It serves the runs that are forwarded to it."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self.sock = sock
        self.ready = False
        """Whether it is primed."""
        self.runs: set[int] = set()
        """Numbers of the runs that it serves."""

    def forward(self, command: OpenRun | SignalRun, descriptors: tuple[int, ...] = ()) -> None:
        """Send a command to it."""
        with contextlib.suppress(OSError):  # the first server notices its end
            socket.send_fds(self.sock, [encode(command)], descriptors)


class ForkServer:
    """Serves the control socket until the front end is gone. Only imports: it never runs user code or compiles.

    On a `Prepare`, it imports the rest of the compiler between commands. Then, with an accelerator, each process that
    it forks primes itself, since a process that compiled for one cannot fork. Otherwise it forks a server to be primed,
    and forwards further runs to it.
    """

    def __init__(self, control: socket.socket, worker: LoadedWorker, *, prime: bool = False) -> None:
        self._control = control
        self._channel = Channel(control)
        self._worker = worker
        self._stage: WorkerStage = "loaded"
        self._prime = prime
        """Whether each process prepares itself until its job arrives."""
        self._runs: dict[int, int] = {}
        """Number of each run by the process id of its child."""
        self._seeds: set[int] = set()
        """Process ids of the runs' seeds, each of which ends after its run."""
        self._preparation: Iterator[None] | None = None
        self._self_priming = False
        """Whether that takes seconds, since it initializes an accelerator."""
        self._primed: PrimedServer | None = None
        self._losses = 0
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
        sockets = [self._control, self._wake, *([self._primed.sock] if self._primed else [])]
        ready, _, _ = select.select(sockets, [], [], None if self._preparation is None else 0)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
            self._reap()
        if self._primed is not None and self._primed.sock in ready:
            self._relay(self._primed)
        if self._control in ready:
            return self._handle_command()
        if self._preparation is not None and next(self._preparation, DONE) is DONE:
            self._preparation = None
        return True

    def _handle_command(self) -> bool:
        frame = receive(self._control, RUN_DESCRIPTORS)
        if frame is None:
            return False
        match decode_worker_command(frame.body):
            case OpenRun() as command:
                self._open_run(command, frame.descriptors)
            case SignalRun() as command:
                self._signal(command)
            case Prepare(prime=prime):
                self._prime = prime
                self._preparation = self._prepare()
        return True

    # ---- getting ready

    def _prepare(self) -> Iterator[None]:
        """Import the rest of the compiler in steps; then, if asked to, begin to prime."""
        accelerated = bool(self._worker.policy.accelerator)
        yield from priming.import_steps(accelerated)
        if accelerated:
            self._verify_fork()
        elif not self._prime:
            yield from priming.vector_steps()
        self._self_priming = self._prime and accelerated and self._worker.policy.forks
        self._reach("imported")
        if self._prime and not accelerated:
            self._start_primed_server()

    def _verify_fork(self) -> None:
        """Check again that a child can use the accelerator, now that more is imported."""
        probe = fork_policy.start_probe()
        policy = fork_policy.choose_policy(probe, fork_policy.accelerator_initialized)
        standby = replace(self._worker.standby, fork_problem=policy.problem)
        self._worker = replace(self._worker, policy=policy, standby=standby)

    def _reach(self, stage: WorkerStage) -> None:
        """Report that processes forked from now on are ahead of earlier ones."""
        self._stage = stage
        self._channel.send(Ready(
            stage=stage, standby=replace(self._worker.standby, primed=stage == "primed"),
            forks=self._worker.policy.forks, self_priming=self._self_priming,
        ))  # fmt: skip

    def _start_primed_server(self) -> None:
        ours, theirs = socket.socketpair()
        server = os.getpid()
        pid = fork_policy.fork()
        if pid == 0:
            try:
                ours.close()
                self._leave_server(server)
                self._control.close()
                priming.prime_fork_server()
                second = ForkServer(theirs, self._worker, prime=True)
                second._reach("primed")
                second.serve()
                _exit(0)
            finally:
                _exit(BROKEN_STATUS)
        theirs.close()
        self._primed = PrimedServer(pid, ours)

    def _relay(self, primed: PrimedServer) -> None:
        """Pass a report of the primed server on to the front end."""
        frame = receive(primed.sock)
        if frame is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(primed.pid, signal.SIGKILL)
            self._lose(primed)
            return
        report = decode_worker_report(frame.body)
        if isinstance(report, Ready):
            primed.ready = True
        elif isinstance(report, RunExited):
            primed.runs.discard(report.number)
        self._channel.send(report)

    def _lose(self, primed: PrimedServer) -> None:
        """Report the runs of the primed server, which end with it, and start another one."""
        self._primed = None
        primed.sock.close()
        for number in primed.runs:
            self._channel.send(RunExited(number=number, code=-signal.SIGKILL))
        if primed.ready:
            self._reach("imported")
            self._losses += 1
            if self._losses <= LARGEST_LOSS:
                self._start_primed_server()

    # ---- runs

    def _open_run(self, command: OpenRun, descriptors: tuple[int, ...]) -> None:
        if self._primed is not None and self._primed.ready:
            self._primed.runs.add(command.number)
            self._primed.forward(command, descriptors)
        else:
            self._fork(command, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork(self, command: OpenRun, descriptors: tuple[int, ...]) -> None:
        server = os.getpid()
        ours, theirs = socket.socketpair()
        try:
            pid = fork_policy.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            self._channel.send(_cannot_fork(error))
            return
        if pid == 0:
            theirs.close()
            self._become_run(server, command, descriptors, TimingSeed(ours))
        self._runs[pid] = command.number
        self._channel.send(RunOpened(number=command.number, pid=pid, primed=self._stage == "primed"))
        ours.close()
        seed = fork_seed(theirs, self._worker.threads, self._worker.nvml_check)  # while the run begins on another core
        if seed is not None:
            self._seeds.add(seed)

    def _become_run(self, server: int, command: OpenRun, descriptors: tuple[int, ...], seed: TimingSeed) -> None:
        """Serve one run in the child. Never return: the outer frames belong to the server."""
        try:
            self._leave_server(server)
            os.setsid()
            if self._worker.nvml_check is not None:
                self._worker.nvml_check.undo()
            serve(descriptors, self._worker.threads, self._become_standby(command), seed)
        finally:
            _exit(BROKEN_STATUS)

    def _leave_server(self, server: int) -> None:
        """In a child, undo what only concerns the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for sock in (self._wake, self._wake_sender, *([self._primed.sock] if self._primed else [])):
            sock.close()
        process_setup.die_with_parent(server)

    def _become_standby(self, command: OpenRun) -> Generator[float]:
        """Prepare this child in steps, and report it if primed: a small message on the shared socket is atomic."""
        try:
            if self._prime and self._worker.policy.accelerator:
                yield from priming.prime_steps("cuda")
                self._channel.send(RunPrimed(number=command.number))
            if self._prime and command.warm_up and command.imports is not None:
                from tcexplore.worker.early_imports import import_steps

                yield from import_steps(command.imports)
            if self._worker.policy.accelerator:
                return
            if self._prime and command.warm_up:
                yield from priming.warm_steps(self._worker.threads)
                if command.rehearsal is not None:
                    from tcexplore.worker.rehearsal import rehearse_steps

                    yield from rehearse_steps(command.rehearsal, primed=self._stage == "primed")
        finally:
            self._control.close()

    def _signal(self, command: SignalRun) -> None:
        if self._primed is not None and command.number in self._primed.runs:
            self._primed.forward(command)
            return
        for pid, run in self._runs.items():
            if run == command.number:
                _yield_cores(pid)
                _signal_group(pid, command.signal)

    # ---- ends

    def _reap(self) -> None:
        while True:
            try:
                # WNOWAIT: until the child is reaped, no other process gets its id, so killing its group is safe.
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            if self._primed is None or info.si_pid != self._primed.pid:
                _signal_group(info.si_pid, signal.SIGKILL)
            _, status = os.waitpid(info.si_pid, 0)
            self._seeds.discard(info.si_pid)
            number = self._runs.pop(info.si_pid, None)
            if number is not None:
                self._end_orphans()
                self._channel.send(RunExited(number=number, code=os.waitstatus_to_exitcode(status)))
            elif self._primed is not None and info.si_pid == self._primed.pid:
                self._lose(self._primed)

    def _end_orphans(self) -> None:
        """Kill processes that a run started in other process groups and that this process has adopted."""
        servers = {self._primed.pid} if self._primed else set()
        for pid in _children() - self._runs.keys() - self._seeds - servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        self._seeds.clear()  # as orphans
        for pid in self._runs:
            _signal_group(pid, signal.SIGKILL)
        if self._primed is not None:
            self._primed.sock.close()  # it ends its own children, unless it is still being primed
            if not self._primed.ready:
                os.kill(self._primed.pid, signal.SIGKILL)
        self._end_orphans()
        with contextlib.suppress(ChildProcessError):
            while self._runs or _children():
                pid, _ = os.waitpid(-1, 0)
                self._runs.pop(pid, None)
                self._end_orphans()


def _signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group of a child, or to a child that has not yet made its group."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
            return


def _yield_cores(pid: int) -> None:
    """Let a run that ends, and frees its memory for up to 100 ms, wait for the run that replaces it."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, LOW_PRIORITY)  # fails before the run has made its session
        # Linux may schedule each session as a whole: then the priority within one has no effect on others.
        with open(f"/proc/{pid}/autogroup", "w") as priority:
            priority.write(str(LOW_PRIORITY))


def _children() -> set[int]:
    """Return the process ids of this process's children, zombies included."""
    parent, children = str(os.getpid()).encode(), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            # The process name in parentheses may contain spaces and parentheses.
            if stat.read().rpartition(b")")[2].split(None, 2)[1] == parent:
                children.add(int(pid))
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
