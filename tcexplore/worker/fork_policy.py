"""Forks of a process that has imported torch: whether they work, tried in a child, and functions that run in one."""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcexplore.worker.process_setup import die_with_parent

NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Environment variable with which `torch.cuda.is_available()` does not initialize CUDA, after which forks fail."""

PROBE_S = 30.0
"""Seconds for a child process to use the accelerator before it counts as unusable."""


@dataclass(frozen=True, slots=True)
class ForkPolicy:
    """The way in which runs get their processes."""

    forks: bool
    problem: str = ""
    """Why runs are not forked, on a system that can fork."""
    accelerator: str = ""
    """Name of the GPU; empty if there is none."""

    @property
    def device(self) -> str:
        """The default device, as in `Standby.device`."""
        return f"cuda: {self.accelerator}" if self.accelerator else "cpu"


class ChildProbe:
    """A function that runs in a forked child, while this process goes on; its result must be JSON."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._read, write = os.pipe()
        self._pid = fork()
        if self._pid == 0:
            try:
                try:
                    answer = {"value": function()}
                except BaseException as error:  # noqa: BLE001  a driver or a model may raise anything
                    answer = {"error": f"{type(error).__name__}: {error}"}
                with open(write, "wb") as pipe:
                    pipe.write(json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(write)

    def result(self, limit_s: float = PROBE_S) -> Any:
        """Wait for the result. Raise `RuntimeError` with the child's error, or if it crashed or takes too long."""
        answer = self._read_answer(time.monotonic() + limit_s)
        os.close(self._read)
        if answer is None:
            os.kill(self._pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if answer is None:
            raise RuntimeError(f"no answer within {limit_s:g} s")
        if not answer:
            raise RuntimeError(f"the process ended with status {code}")
        decoded = json.loads(answer)
        if "error" in decoded:
            raise RuntimeError(decoded["error"])
        return decoded["value"]

    def _read_answer(self, deadline: float) -> bytes | None:
        """Read to the end, which may be empty; return None if that takes longer than `deadline`."""
        answer = b""
        while select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(self._read, 65_536)
            if not chunk:
                return answer
            answer += chunk
        return None


def fork() -> int:
    """Fork, without Python's warning about threads: those of an imported torch are idle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class NvmlCheck:
    """Keeps imports of this process from initializing CUDA, by the environment variable `NVML_CHECK`."""

    def __init__(self) -> None:
        self._preset = os.environ.get(NVML_CHECK)
        os.environ[NVML_CHECK] = "1"

    def undo(self) -> None:
        """Restore the user's environment, in a child or for a process that does not fork."""
        if self._preset is None:
            os.environ.pop(NVML_CHECK, None)
        else:
            os.environ[NVML_CHECK] = self._preset


def use_accelerator() -> str:
    """Initialize the accelerator and run an operation on it; return its name, empty if there is none."""
    import torch

    os.environ.pop(NVML_CHECK, None)
    if not torch.cuda.is_available():
        return ""
    torch.cuda.init()
    (torch.ones(2, device="cuda") + 1).sum().item()
    return str(torch.cuda.get_device_name())


def start_probe() -> ChildProbe | None:
    """Try the accelerator in a child; return None if this torch is built without one."""
    import torch

    return ChildProbe(use_accelerator) if torch.version.cuda or torch.version.hip else None


def choose_policy(probe: ChildProbe | None, initialized: Callable[[], bool]) -> ForkPolicy:
    """Return the policy for the result of `start_probe`; `initialized` is whether this process uses the accelerator."""
    if probe is None:
        return ForkPolicy(forks=True)
    try:
        name = probe.result()
    except (RuntimeError, ValueError, OSError) as error:
        return ForkPolicy(forks=False, problem=f"a forked process cannot use the GPU: {error}")
    if name and initialized():
        reason = "importing torch initialized CUDA, after which a process cannot be forked"
        return ForkPolicy(forks=False, problem=reason, accelerator=name)
    return ForkPolicy(forks=True, accelerator=name)


def accelerator_initialized() -> bool:
    """Return whether this process has initialized the accelerator, so that its children cannot use it."""
    import torch

    return bool(torch.cuda.is_initialized())


def can_fork() -> bool:
    """Return whether the system's fork is safe for a process that has imported torch."""
    return sys.platform == "linux"


_OPENMP = re.compile(r"/lib[gi]?omp\d*[-.][^/]*$")
_PAUSE_HARD = 2
"""`omp_pause_hard` of OpenMP."""


def _end_openmp_threads() -> None:
    """End the threads of OpenMP, which start again with the next parallel region. Raises `OSError`, `RuntimeError`.

    A copy of the process does not have them, and would wait for them in its first parallel region, or compute nonsense.
    """
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        mapped = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps}
    for library in filter(_OPENMP.search, mapped):
        pause = getattr(ctypes.CDLL(library), "omp_pause_resource_all", None)
        if pause is None or pause(_PAUSE_HARD):
            raise RuntimeError("OpenMP does not end its threads, which a copy would wait for")


def call_in_copy(function: Callable[[], Any], limit_s: float) -> Any:
    """Return the result, which must be JSON, of a function in a forked process. Raises `OSError`, `RuntimeError`."""
    parent = os.getpid()

    def run() -> Any:
        die_with_parent(parent)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        return function()

    _end_openmp_threads()
    return ChildProbe(run).result(limit_s)
