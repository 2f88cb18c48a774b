"""Processes that only time the program of a run: each is one more sample of what varies between processes.

A run's *seed* is forked beside the run's process, by the fork server if there is one: before user code is imported or
a parallel region runs, after which OpenMP hangs in forked processes. The seed waits until the run is gone. For each
process to time, it forks a child, which imports the user's file again, compiles it with what torch has cached, and
measures pairs when the run asks for them. The seed never uses a GPU, or its children could not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tcexplore.events import Job, decode_job
from tcexplore.events.codec import ProtocolError, decode, encode
from tcexplore.events.timing_events import MemoryState
from tcexplore.quantities import size
from tcexplore.worker import fork_policy, priming, process_setup
from tcexplore.worker.fork_policy import NvmlCheck
from tcexplore.worker.link import receive

if TYPE_CHECKING:
    import torch

    from tcexplore.timing.samples import Samples
    from tcexplore.timing.workload import Pause, Workload

SLICE_S, GPU_SLICE_S = 0.25, 0.75
"""Seconds of pairs that a child measures at once; between them, the run handles commands and may be paused."""

POLL_S = 0.05

CONTEXT_BYTES = 1 << 30
"""Memory of a device that a process needs beside its tensors."""

PROCESSES, FEW = 4, 2
"""Other processes whose memory is kept; the number for slow calls and in studies, and for the allocator's defaults."""

SLOW_S, SLOWEST_S = 1.0, 10.0
"""Seconds of a pair from which on fewer other processes are timed, and none."""

SHORTEST_TIME_S = 1.0
"""Seconds of timing for which no other process is started."""

FACT, SYMBOL = "timing in another process", "os:fork"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrder:
    """Run to child: how to prepare. The job follows."""

    memory: MemoryState
    """What the allocator does with freed memory: `as the system does` on a GPU."""
    grad: bool
    """Whether calls are made with the file's own grad mode."""
    mutates: bool
    """Whether a call changes its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildForked:
    """Seed to run: the process id of a child."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePairs:
    """Run to child: measure pairs."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPairs:
    """Child to run: new pairs, in microseconds per call, and the page faults of new blocks. Empty when prepared."""

    eager_us: tuple[float, ...] = ()
    compiled_us: tuple[float, ...] = ()
    eager_page_faults: tuple[float, ...] = ()
    compiled_page_faults: tuple[float, ...] = ()
    busy_cores: float | None = None
    """Cores that other programs used meanwhile; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFailed:
    """Child to run: it cannot time the program."""

    reason: str


_RECORDS: dict[str, type] = {
    record.__name__: record for record in (ProcessOrder, ChildForked, MeasurePairs, ChildPairs, ChildFailed)
}


def _receive(sock: socket.socket) -> Any:
    """Return the next record; None if the other side is gone."""
    frame = receive(sock)
    return None if frame is None else decode(frame.body, _RECORDS)


# ---- the seed


ON_CPU, ON_GPU = b"c", b"g"
"""What a run sends to its seed for a child."""


class TimingSeed:
    """The run's end of its seed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fork(self, *, accelerated: bool) -> tuple[socket.socket, int]:
        """Have the seed fork a child; return the socket to it and its process id. Raise `OSError` if it is gone.

        `accelerated` is whether the child compiles for a GPU.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._sock, [ON_GPU if accelerated else ON_CPU], [theirs.fileno()])
        forked = _receive(self._sock)
        if forked is None:
            raise OSError("the process that forks it has ended")
        return ours, forked.pid


def fork_seed(theirs: socket.socket, threads: int, check: NvmlCheck | None) -> int | None:
    """Fork a seed that serves `theirs`, and close it here; return its process id, None if no process can be started.

    `threads` is torch's default number. Children undo `check`, which is in effect in this process.
    """
    parent = os.getpid()
    with theirs:
        try:
            pid = fork_policy.fork()
        except OSError:
            return None
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                process_setup.die_with_parent(parent)
                null = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):
                    os.dup2(null, stream)
                process_setup.close_all_but({0, 1, 2, theirs.fileno()})
                _serve(theirs, threads, check)
            finally:
                os._exit(0)
    return pid


def _serve(sock: socket.socket, threads: int, check: NvmlCheck | None) -> None:
    """Fork a child for each request until the run is gone."""
    process_setup.prefer_oom_kill()
    imported = False
    while True:
        message, descriptors, _, _ = socket.recv_fds(sock, 1, 1)
        if not message:
            return
        if not imported:
            imported = True
            for _ in priming.import_steps(accelerated=message == ON_GPU):
                pass
        _reap_children()  # their CPU time is added to that of this process then
        seed = os.getpid()
        pid = fork_policy.fork()
        if pid == 0:
            try:
                process_setup.die_with_parent(seed)
                sock.close()
                if check is not None:
                    check.undo()
                serve_child(socket.socket(fileno=descriptors[0]), threads)
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        sock.sendall(encode(ChildForked(pid=pid)))


def _reap_children() -> None:
    with contextlib.suppress(ChildProcessError):  # there is none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# ---- the child


def serve_child(sock: socket.socket, threads: int) -> None:
    """Prepare the program of the order that arrives, then measure pairs as asked."""
    order, frame = _receive(sock), receive(sock)
    if order is None or frame is None:
        return
    try:
        measure = _prepare(decode_job(frame.body), order, threads)
        answer: Any = ChildPairs()
        while True:
            sock.sendall(encode(answer))
            asked = _receive(sock)
            if asked is None:
                return
            answer = measure(asked.seconds)
    except OSError:
        return
    except BaseException as error:  # noqa: BLE001  the user's code may raise anything
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        with contextlib.suppress(OSError):
            sock.sendall(encode(ChildFailed(reason=reason)))


def _prepare(job: Job, order: ProcessOrder, threads: int) -> Callable[[float], ChildPairs]:
    """Import the user's file, compile its entry and warm up; return a function that measures pairs."""
    from tcexplore.timing.allocator import keep_memory
    from tcexplore.timing.sampler import Sampler
    from tcexplore.timing.timed_machine import OtherProcesses, block_timer, compile_counter, reserve_core

    if order.memory == "memory kept":
        keep_memory()
    workload = _make_workload(job, order, threads)
    others = OtherProcesses(process_setup.front_end)
    reserve_core(job.config.threads or threads)
    gc.collect()
    sampler = Sampler(workload, block_timer(workload), compile_counter(_ignore), controls=False)
    others.restart()

    def measure(seconds: float) -> ChildPairs:
        end = time.monotonic() + seconds
        sampler.warm_up()
        sampler.samples.page_faults.clear()
        while True:
            sampler.measure_pair()
            if time.monotonic() >= end:
                break
        chunks = sampler.samples.take_unsent()
        faults = sampler.samples.page_faults
        return ChildPairs(
            eager_us=tuple(us for chunk in chunks for us in chunk.eager_us),
            compiled_us=tuple(us for chunk in chunks for us in chunk.compiled_us),
            eager_page_faults=tuple(faults.get("eager", ())),
            compiled_page_faults=tuple(faults.get("compiled", ())),
            busy_cores=others.busy_cores(),
        )

    return measure


def _make_workload(job: Job, order: ProcessOrder, threads: int) -> Workload:
    """Return both sides of a timing as its run makes them, but without observers."""
    import torch

    from tcexplore.capture.compile_overrides import CompileOverrides
    from tcexplore.capture.hooks import Hooks
    from tcexplore.capture.inductor import library_files
    from tcexplore.capture.user_files import UserFiles
    from tcexplore.capture.varied_calls import resize_calls, vary_calls
    from tcexplore.worker import torch_settings
    from tcexplore.worker.baseline import Baseline
    from tcexplore.worker.model_file import ModelFile
    from tcexplore.worker.program import Program
    from tcexplore.worker.regional_compile import skip_guard_evaluation
    from tcexplore.worker.script_entry import load_entry

    sys.dont_write_bytecode = True
    torch_settings.apply(job, threads, _ignore)
    # The first child compiles the whole program again, without observers; the others take its code from torch's caches.
    torch_settings.use_own_caches(job.config)
    # What torch has cached needs no pool, which would be another process that imports torch.
    torch._inductor.config.compile_threads = 1
    overrides = CompileOverrides(job.config)
    overrides.install(Hooks(_ignore))
    library_files.write_whole(Hooks(_ignore))
    loaded, dynamo, user_files = frozenset(sys.modules), torch_settings.DynamoSettings(), UserFiles(job.file)
    module, entry = load_entry(ModelFile(job), user_files)
    program = Program(vary_calls(resize_calls(entry, job.config.dim, job.config.sizes), job.config), job.config, module)
    program.grad = order.grad
    program.call_all(program.compiled)
    program.restore()
    skip_guard_evaluation(job.config)
    if job.baseline is not None:
        overrides.use(job.baseline_config or job.config)
        baseline = Baseline(job, user_files, loaded, dynamo)
        baseline.program.grad = order.grad
        return baseline.workload(program, order.mutates)
    program.call_all(program.eager)
    program.restore()
    return program.workload(order.mutates)


def _ignore(_: object) -> None:
    """Drop an event: a child reports only its pairs."""


# ---- the run


class TimingProcesses:
    """Times the program of a run in children of its seed, one after the other."""

    def __init__(
        self,
        seed: TimingSeed,
        job: Job,
        *,
        grad: bool,
        mutates: bool,
        device: torch.device,
        limit_s: float,
        report: Callable[[str], None],
    ) -> None:
        """`grad` and `mutates` are those of `ProcessOrder`; `limit_s` is the time limit of a child to prepare.

        `report` is called with the reason if a child fails.
        """
        self._device = device
        self._seed = seed
        self._job = job
        self._grad = grad
        self._mutates = mutates
        self._limit_s = limit_s
        self._report = report

    def plan(self, pair_s: float) -> Sequence[MemoryState]:
        """Return the states to time: fewer for slow calls and changes, none for very slow ones and a short timing."""
        kept, time_for = self._job.timing_processes, self._job.time_for
        if self._device.type != "cpu":
            return self._plan_on_gpu(pair_s)
        if kept == 0 or pair_s > SLOWEST_S or (time_for is not None and time_for < SHORTEST_TIME_S):
            return ()
        change = self._job.baseline is not None
        few = pair_s > SLOW_S or kept < PROCESSES or (change and self._job.baseline_config is None)
        states: list[MemoryState] = ["memory kept"] * (min(kept, FEW) if few else kept)
        return states if few or change else [*states, *["memory returned"] * FEW]  # type: ignore[list-item]

    def _plan_on_gpu(self, pair_s: float) -> Sequence[MemoryState]:
        """Return the processes of a run that is no part of a study: each takes seconds to prepare.

        Nothing is timed in others if there is no memory for them on the device.
        """
        job = self._job
        short = job.time_for is not None and job.time_for < SHORTEST_TIME_S
        if job.timing_processes < PROCESSES or job.baseline is not None or short or pair_s > SLOW_S:
            return ()
        if reason := lacks_room(self._device):
            self._report(reason)
            return ()
        return ["as the system does"] * PROCESSES

    def time(self, memory: MemoryState, seconds: float, pause: Pause) -> Samples | None:
        """Return what a child measures; None if it fails, with the reason in the report."""
        from tcexplore.timing.samples import Samples

        samples, slice_s = Samples(), SLICE_S if self._device.type == "cpu" else GPU_SLICE_S
        try:
            sock, pid = self._seed.fork(accelerated=self._device.type != "cpu")
        except (OSError, ProtocolError) as error:
            self._report(str(error))
            return None
        try:
            with sock:
                self._send(sock, memory)
                self._await(sock, self._limit_s, partial(_pause_both, pid, pause))
                measured = 0.0
                while measured < seconds:
                    pause(0.0)
                    began = time.monotonic()
                    sock.sendall(encode(MeasurePairs(seconds=min(slice_s, seconds))))
                    _add(samples, self._await(sock, self._limit_s, None))
                    measured += time.monotonic() - began
        except (OSError, ProtocolError, _ChildFailedError) as error:
            self._report(str(error))
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return samples if samples.measured.taken else None

    def _send(self, sock: socket.socket, memory: MemoryState) -> None:
        sock.sendall(encode(ProcessOrder(memory=memory, grad=self._grad, mutates=self._mutates)))
        sock.sendall(encode(self._job))

    @staticmethod
    def _await(sock: socket.socket, limit_s: float, pause: Callable[[], None] | None) -> ChildPairs:
        """Return the answer of a child, and call `pause` meanwhile, whose time does not count."""
        deadline = time.monotonic() + limit_s
        while not select.select([sock], [], [], POLL_S)[0]:
            if pause is not None:
                began = time.monotonic()
                pause()
                deadline += time.monotonic() - began
            if time.monotonic() > deadline:
                raise _ChildFailedError(f"it did not answer within {limit_s:.0f} s")
        answer = _receive(sock)
        if isinstance(answer, ChildPairs):
            return answer
        raise _ChildFailedError(answer.reason if isinstance(answer, ChildFailed) else "the process ended")


def lacks_room(device: torch.device) -> str:
    """Return why the device's memory is not enough for a second process of this kind; empty if it is."""
    import torch

    free, _ = torch.get_device_module(device).mem_get_info(device)
    needed = torch.get_device_module(device).max_memory_reserved(device) + CONTEXT_BYTES
    return "" if free >= needed else f"it needs {size(needed)} of the device's memory, and {size(free)} are free"


class _ChildFailedError(Exception):
    """A child cannot time the program; its text is the reason."""


def _pause_both(pid: int, pause: Pause) -> None:
    """Handle commands of the run, which may be paused; its child rests meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        pause(0.0)
        os.kill(pid, signal.SIGCONT)


def _add(samples: Samples, pairs: ChildPairs) -> None:
    samples.busy_cores = pairs.busy_cores if pairs.busy_cores is not None else samples.busy_cores
    for eager, compiled in zip(pairs.eager_us, pairs.compiled_us, strict=True):
        samples.measured.add(eager, compiled)
    for faults in pairs.eager_page_faults:
        samples.note_page_faults("eager", faults)
    for faults in pairs.compiled_page_faults:
        samples.note_page_faults("compiled", faults)
