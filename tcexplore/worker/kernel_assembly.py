"""Machine code of a run's kernels, and their roofline estimates for the target."""

from __future__ import annotations

import faulthandler
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import Event, Kernel, Wrapper
from tcexplore.events.target_events import KernelAssembled, KernelNotAssembled
from tcexplore.targets.assembler import Assembler, assembler_env
from tcexplore.targets.cpu_assembly import compile_to_assembly
from tcexplore.targets.device_table import AllowedTf32, Target, roofline_point
from tcexplore.worker.fork_policy import fork
from tcexplore.worker.process_setup import close_all_but, die_with_parent

FIRST = 1
"""Number of autotuning configurations to assemble per kernel. An absent device can't measure them, so only the
first one is assembled."""


def allowed_tf32() -> AllowedTf32:
    """Return torch's settings for TF32: `fp32_precision`, which the older settings change too."""
    backends: Any = torch.backends
    return AllowedTf32(
        matmul=backends.cuda.matmul.fp32_precision == "tf32", convolution=backends.cudnn.conv.fp32_precision == "tf32"
    )


class KernelAssembly:
    """Assembles Triton kernels for `target` one by one, in a thread."""

    def __init__(self, assembler: Assembler, target: Target, send: Emit) -> None:
        self._assembler = assembler
        self._target = target
        self._send = send
        self._waiting: queue.SimpleQueue[Kernel | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, kernel: Kernel) -> None:
        """Send the kernel's roofline point, and assemble it if it is a Triton kernel."""
        if point := roofline_point(kernel, self._target, allowed_tf32()):
            self._send(point)
        if kernel.language != "triton":
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tcexplore assembling", daemon=True)
            self._thread.start()
        self._waiting.put(kernel)

    def finish(self) -> None:
        """Wait until every added kernel is assembled."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (kernel := self._waiting.get()) is not None:
            self._assemble(kernel)

    def _assemble(self, kernel: Kernel) -> None:
        try:
            for event in self._assembler.assemble(kernel, self._target, first=FIRST):
                self._send(event)
        except Exception as error:  # noqa: BLE001  Triton may raise anything; the kernel then has no machine code
            self._send(not_assembled(kernel, self._target.key, error))


def assemble_local(kernels: Sequence[Kernel], wrappers: Iterable[Wrapper], send: Emit) -> None:
    """Send the machine code that this machine's GPU runs for the Triton kernels, and their roofline points."""
    from tcexplore.targets.loaded_kernels import loaded_kernel, local_gpu

    gpu = local_gpu()
    if gpu is None:
        return
    device, peaks = gpu
    paths = {(wrapper.graph, wrapper.phase): wrapper.path for wrapper in wrappers}

    def roofline(kernel: Kernel) -> Iterator[Event]:
        if peaks and (point := roofline_point(kernel, device, allowed_tf32())):
            yield point

    def machine_code(kernel: Kernel) -> Iterator[Event]:
        return loaded_kernel(kernel, paths.get((kernel.graph, kernel.phase), ""), device)

    _send_each(kernels, roofline, send)
    _send_each([kernel for kernel in kernels if kernel.language == "triton"], machine_code, send)


def assemble_cpp(kernels: Sequence[Kernel], send: Emit) -> None:
    """Send the assembly of C++ kernels of this machine, or the reason for its absence."""

    def assembly(kernel: Kernel) -> Iterator[Event]:
        code = compile_to_assembly(kernel.source)
        key: dict[str, Any] = {"graph": kernel.graph, "phase": kernel.phase, "kernel": kernel.name}
        yield KernelAssembled(target=kernel.target, config="", stages=(code.stage,), vectors=code.vectors, **key)

    _send_each(kernels, assembly, send)


def _send_each(kernels: Sequence[Kernel], facts: Callable[[Kernel], Iterator[Event]], send: Emit) -> None:
    """Send the facts about each kernel, in their order, and the reason if they end early.

    Compilers and disassemblers are processes of their own, a second or so per kernel: one runs on each core.
    """

    def events(kernel: Kernel) -> list[Event]:
        known: list[Event] = []
        try:
            for event in facts(kernel):
                known.append(event)  # noqa: PERF402  those before an error are kept
        except Exception as error:  # noqa: BLE001  a tool may fail in any way; the kernel then has no machine code
            known.append(not_assembled(kernel, kernel.target, error))
        return known

    with ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="tcexplore assembling") as pool:
        for known in pool.map(events, kernels):
            for event in known:
                send(event)


def not_assembled(kernel: Kernel, target: str, error: Exception) -> KernelNotAssembled:
    """Return the reason why a kernel has no machine code."""
    reason = f"{type(error).__name__}: {str(error).strip()[:2000]}"
    return KernelNotAssembled(graph=kernel.graph, phase=kernel.phase, kernel=kernel.name, target=target, reason=reason)


class ForkedProcess:
    """A child of this process with pipes to it, used like a `subprocess.Popen`."""

    def __init__(self, pid: int, requests: int, answers: int) -> None:
        self.stdin = os.fdopen(requests, "w")
        self.stdout = os.fdopen(answers)
        self.returncode: int | None = None
        """Exit status, or minus a signal; None until the child is reaped."""
        self._pid = pid

    def poll(self) -> int | None:
        """Return the exit status, or None while the child runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the exit status."""
        return self._reap(0) or 0

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGTERM)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self._pid, options)
            except ChildProcessError:  # the user's program may have reaped all children
                pid, status = self._pid, 0
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def fork_assembler(log: IO[str]) -> ForkedProcess:
    """Fork an assembling process, which has torch already; a new Python would take seconds to import it.

    Must be called before hooks are installed and before the user's program runs: the child would emit events of the
    run, and inherit locks of threads that it does not have.
    """
    parent = os.getpid()
    (read, requests), (answers, write) = os.pipe(), os.pipe()
    pid = fork()
    if pid == 0:
        _assemble_in_child(parent, read, write, log.fileno())
    os.close(read)
    os.close(write)
    return ForkedProcess(pid, requests, answers)


def _assemble_in_child(parent: int, read: int, write: int, log: int) -> None:
    """Serve assembling requests. Never return."""
    status = 1
    try:
        faulthandler.unregister(signal.SIGTERM)
        faulthandler.disable()
        die_with_parent(parent)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        close_all_but({0, 1, 2, read, write})
        os.environ.update(assembler_env())
        from tcexplore.targets.assembler_process import serve

        with os.fdopen(read) as requests, os.fdopen(write, "w") as answers:
            serve(requests, answers)
        status = 0
    except BaseException:  # noqa: BLE001  any error of the child goes to the log
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
