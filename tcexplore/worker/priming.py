"""Prepare a worker: import the compiler and compile a tiny model, so that runs start immediately."""

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
from tcexplore.worker.torch_probe import list_backends, list_modes

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
"""Modules to import before the first job. One that is missing or broken fails only when a job needs it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A process that is ready to serve runs."""

    standby: Standby
    fork_server: bool
    """Whether it forks a process for each run. Otherwise it serves one run itself."""
    threads: int
    """Torch's default number of threads on this machine."""


def prepare(allow_fork_server: bool = True, prime: bool = True) -> Prepared:
    """Import and, unless `prime` is false, prime. Raise `ImportError` if torch cannot be imported.

    A worker that isn't primed imports torch and Dynamo, which every run needs first: its single run imports the rest on
    demand.

    A fork server must not run a parallel region, or its children hang in their first one, and must not initialize an
    accelerator. So it primes on one thread, and only on a machine without an accelerator.
    """
    started = time.perf_counter()
    import torch

    if not prime:
        return Prepared(_standby(started, primed=False), fork_server=False, threads=torch.get_num_threads())
    accelerated = torch.cuda.is_available()
    fork_server = allow_fork_server and sys.platform == "linux" and not accelerated
    threads = torch.get_num_threads()
    if fork_server:
        # Inductor's worker pool compiles Triton kernels. Without a GPU it only costs each run a process.
        os.environ.setdefault("TORCH_WARM_POOL", "0")
        torch.set_num_threads(1)
    for module in _modules():
        with contextlib.suppress(Exception):  # a broken module fails when a job needs it
            importlib.import_module(module)
    primed = "cuda" if accelerated else "cpu"
    _prime(primed, one_thread=fork_server)
    if not fork_server or backward_survives_fork():
        _prime(primed, one_thread=fork_server, backward=True)
    _forget_registrations()
    gc.collect()
    gc.freeze()
    return Prepared(_standby(started, primed=True), fork_server, threads)


def _standby(started: float, *, primed: bool) -> Standby:
    import torch

    return Standby(
        torch=str(torch.__version__),
        python=platform.python_version(),
        device=f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "cpu",
        seconds=time.perf_counter() - started,
        primed=primed,
        modes=_list_or_empty(list_modes),
        backends=_list_or_empty(list_backends),
    )


def _list_or_empty(list_choices: Callable[[], list[str]]) -> tuple[str, ...]:
    try:
        return tuple(list_choices())
    except Exception:  # noqa: BLE001  a torch that cannot list its choices can still compile
        return ()


def _modules() -> tuple[str, ...]:
    from tcexplore.capture import install_hooks

    return (*COMPILER_MODULES, *install_hooks.module_names())


def backward_survives_fork() -> bool:
    """Return whether a process that ran autograd can fork children that run autograd.

    A torch built for an accelerator does not allow it once Inductor is loaded, even on a machine without one. A child
    process tries it, because a process that has run autograd may be unusable as a fork server.
    """

    def backward() -> None:
        import torch

        torch.ones(1, requires_grad=True).sum().backward()

    def backward_and_fork() -> None:
        backward()
        if not _succeeds_in_child(backward):
            raise RuntimeError

    return _succeeds_in_child(backward_and_fork)


def _succeeds_in_child(function: Callable[[], None]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork in a process with threads, which are idle
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


CACHED_REGISTRATIONS = (
    "torch._inductor.decomposition:fast_random_decomps",
    "torch._subclasses.fake_tensor:torch_decomp_decompositions",
    "torch._subclasses.functional_tensor:_can_decompose_fast",
    "torch._dynamo.trace_rules:get_mod_inlinelist",
    "torch._dynamo.trace_rules:get_legacy_mod_inlinelist",
    "torch._dynamo.trace_rules:get_mod_skiplist",
)
"""Cached functions of torch that copy tables to which the model file may add: decompositions, modules to inline."""


def _forget_registrations() -> None:
    """Clear the caches that priming filled with registrations: those of the model file come later."""
    for symbol in CACHED_REGISTRATIONS:
        module, _, name = symbol.partition(":")
        function = getattr(sys.modules.get(module), name, None)
        getattr(function, "cache_clear", lambda: None)()


def _prime(device: str, one_thread: bool, backward: bool = False) -> None:
    """Compile a tiny model, in inference or with its backward; without a C++ compiler, up to AOTAutograd."""
    import torch
    from torch._inductor import config

    from tcexplore.worker import torch_settings

    torch_settings.set_options(lambda _: None)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU()).to(device)
    example = torch.ones(4, 8, device=device)
    options = {"compile_threads": 1} if one_thread else {}
    for backend in ("inductor", "aot_eager"):
        try:
            with config.patch(options):
                compiled = torch.compile(model, backend=backend)
                with torch.set_grad_enabled(backward):
                    result = compiled(example)
                if backward:
                    result.sum().backward()
        except Exception:  # noqa: BLE001  any failure of the compiler appears again in the first run, which reports it
            torch._dynamo.reset()
        else:
            break
    torch._dynamo.reset()
