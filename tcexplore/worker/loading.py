"""Load a worker: import torch and what a first graph needs, and choose how runs get their processes."""

from __future__ import annotations

import gc
import importlib
import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tcexplore.events import Standby
from tcexplore.worker import fork_policy
from tcexplore.worker.fork_policy import ForkPolicy, NvmlCheck
from tcexplore.worker.timing_process import TimingSeed, fork_seed
from tcexplore.worker.torch_probe import list_backends, list_features, list_modes

FIRST_MODULES = ("torch._dynamo", "tcexplore.worker.run")
"""Modules that every run needs before its first graph."""


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """A worker that has imported what a first graph needs."""

    policy: ForkPolicy
    standby: Standby
    threads: int
    """Torch's default number of threads on this machine."""
    nvml_check: NvmlCheck | None = None
    """In effect in a process that forks."""
    seed: TimingSeed | None = None
    """That of the only run of a process that does not fork."""


def load(*, forks: bool) -> LoadedWorker:
    """Import what a run needs before its first graph. Raise `ImportError` if torch cannot be imported.

    A process that forks must not initialize an accelerator, so a child process tries it meanwhile.
    """
    started = time.perf_counter()
    gc.disable()  # imports make millions of objects that stay: collecting among them takes a quarter of the time
    check = NvmlCheck() if fork_policy.can_fork() else None
    import torch

    probe, seed = fork_policy.start_probe() if forks else None, None
    for module in FIRST_MODULES:
        importlib.import_module(module)
    if forks:
        policy = fork_policy.choose_policy(probe, fork_policy.accelerator_initialized)
        if check is not None and not policy.forks:
            check.undo()
    else:
        if check is not None:
            seed = _start_seed(check)
            check.undo()
        policy = ForkPolicy(forks=False, accelerator=_accelerator())
    if policy.forks:
        # Inductor's worker pool compiles Triton kernels, in a process that imports torch for seconds. A run on a GPU
        # starts it with its first kernel.
        os.environ.setdefault("TORCH_WARM_POOL", "0")
    standby = Standby(
        torch=str(torch.__version__),
        python=platform.python_version(),
        device=policy.device,
        seconds=time.perf_counter() - started,
        cpu_seconds=time.process_time(),
        fork_problem=policy.problem,
        modes=_list_or_empty(list_modes),
        backends=_list_or_empty(list_backends),
        features=_list_or_empty(list_features),
    )
    gc.freeze()
    gc.enable()
    return LoadedWorker(policy, standby, torch.get_num_threads(), check, seed)


def _start_seed(check: NvmlCheck) -> TimingSeed | None:
    """Fork the seed of a run, before this process initializes an accelerator; None if an import already has."""
    import torch

    if fork_policy.accelerator_initialized():
        return None
    ours, theirs = socket.socketpair()
    gc.enable()  # for the seed
    pid = fork_seed(theirs, torch.get_num_threads(), check)
    gc.disable()
    return None if pid is None else TimingSeed(ours)


def _accelerator() -> str:
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""


def _list_or_empty(list_choices: Callable[[], list[str]]) -> tuple[str, ...]:
    try:
        return tuple(list_choices())
    except Exception:  # noqa: BLE001  a torch that cannot list its choices can still compile
        return ()
