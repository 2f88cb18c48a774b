"""Getting ready: the compiler imported and one tiny model compiled, so that a save is answered at once."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from tcexplore.events import Standby

COMPILER_MODULES = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.codegen.triton",
    "torch._functorch.aot_autograd",
    "tcexplore.worker.run",
    "tcexplore.worker.kernel_assembly",
    "tcexplore.targets.graph_recorder",
    "tcexplore.targets.device_queries",
    "tcexplore.capture.dynamo.eager_ops",
    "tcexplore.timing.timing_run",
    "tcexplore.accuracy.accuracy_check",
)
"""Imported ahead of the first job; one that is missing or broken is found out when it is needed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A process that may now make runs. `fork_server` says how: by forking, or by being the run itself.

    `threads` is the number of threads torch had chosen for this machine.
    """

    standby: Standby
    fork_server: bool
    threads: int


def prepare(allow_fork_server: bool = True) -> Prepared:
    """Import and prime. Raises `ImportError` where torch cannot be imported.

    A fork server must not run a parallel region, or its children hang in their first one, and must not initialize an
    accelerator. So it primes on one thread, and only on a machine without an accelerator.
    """
    started = time.perf_counter()
    import torch

    accelerated = torch.cuda.is_available()
    fork_server = allow_fork_server and sys.platform == "linux" and not accelerated
    threads = torch.get_num_threads()
    if fork_server:
        # Inductor's pool compiles Triton; without a GPU it would only cost each run a process that imports torch.
        os.environ.setdefault("TORCH_WARM_POOL", "0")
        torch.set_num_threads(1)
    for module in _modules():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    primed = "cuda" if accelerated else "cpu"
    _prime(primed, one_thread=fork_server)
    if not fork_server or backward_survives_fork():
        _prime(primed, one_thread=fork_server, backward=True)
    gc.collect()
    gc.freeze()
    device = f"cuda: {torch.cuda.get_device_name()}" if accelerated else "cpu"
    modes, backends = _choices()
    standby = Standby(
        torch=str(torch.__version__),
        python=platform.python_version(),
        device=device,
        seconds=time.perf_counter() - started,
        modes=modes,
        backends=backends,
    )
    return Prepared(standby, fork_server, threads)


def _choices() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Modes and backends; where torch does not say, that is no reason not to run."""
    from tcexplore.worker.compile_choices import backends, modes

    found: list[tuple[str, ...]] = [(), ()]
    for index, question in enumerate((modes, backends)):
        with contextlib.suppress(Exception):
            found[index] = tuple(question())
    return found[0], found[1]


def _modules() -> tuple[str, ...]:
    from tcexplore.capture import install_hooks as install

    return (*COMPILER_MODULES, *install.module_names())


def backward_survives_fork() -> bool:
    """Whether a process that ran autograd may still fork children that run it.

    A torch built for an accelerator refuses once Inductor is loaded, also on a machine without one. Found out in a
    child, because a process that has tried can no longer serve as a fork server.
    """

    def backward() -> None:
        import torch

        torch.ones(1, requires_grad=True).sum().backward()

    def backward_and_fork() -> None:
        backward()
        if not _done_in_child(backward):
            raise RuntimeError

    return _done_in_child(backward_and_fork)


def _done_in_child(function: Callable[[], None]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, for a fork beside idle threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _prime(device: str, one_thread: bool, backward: bool = False) -> None:
    """Compile something tiny, in inference or forward and backward; without a compiler, as far as that goes."""
    import torch
    from torch._inductor import config

    from tcexplore.worker import torch_settings as settings

    settings.set_options(lambda _: None)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU()).to(device)
    example = torch.ones(4, 8, device=device)
    threads = {"compile_threads": 1} if one_thread else {}
    for backend in ("inductor", "aot_eager"):
        try:
            with config.patch(threads):
                compiled = torch.compile(model, backend=backend)
                with torch.set_grad_enabled(backward):
                    result = compiled(example)
                if backward:
                    result.sum().backward()
        except Exception:
            torch._dynamo.reset()
        else:
            break
    torch._dynamo.reset()
