"""Import the compiler and compile a tiny model in steps, so that later runs start immediately."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator

from tcexplore.torch_text.break_text import read_registry
from tcexplore.worker import process_setup
from tcexplore.worker.fork_policy import ChildProbe

COMPILER_MODULES = (
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.codegen.triton",
    "torch._functorch.aot_autograd",
    "tcexplore.worker.kernel_assembly",
    "tcexplore.targets.graph_recorder",
    "tcexplore.targets.device_answers",
    "tcexplore.capture.dynamo.eager_ops",
    "tcexplore.timing.timing_run",
    "tcexplore.accuracy.accuracy_check",
)
"""Modules to import before a later job. One that is missing or broken fails only when a job needs it."""

LAZY_MODULES = (
    "torch._dynamo.backends.inductor",
    "torch._dynamo.backends.distributed",
    "torch._dynamo.dce_extra_outputs",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.db.logging",
    "torch._functorch._activation_checkpointing.remat_using_tags_for_fwd_loss_bwd_graph_pass",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.compiler_bisector",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.hooks",
    "torch._inductor.kernel_template_choice",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.export._unlift",
    "torch.fx.experimental.validator",
    "torch.utils.cpp_extension",
    "sympy.combinatorics",
    "sympy.physics.units",
    "sympy.tensor.tensor",
)
"""Modules that any first compile imports lazily, by a comparison of `sys.modules` before and after one."""

GPU_MODULES = (
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.wrapper",
    "torch._inductor.runtime.triton_heuristics",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cuda.device_op_overrides",
    "torch._inductor.runtime.static_triton_launcher",
    "torch._inductor.runtime.static_cuda_launcher",
    "torch._inductor.select_algorithm",
    "torch._inductor.kernel.mm",
    "torch._inductor.kernel.bmm",
    "torch._inductor.kernel.conv",
    "torch._inductor.cudagraph_trees",
    "triton",
    "triton.compiler.compiler",
    "triton.backends.nvidia.compiler",
    "triton.backends.nvidia.driver",
    "triton.backends.amd.compiler",
    "triton.backends.amd.driver",
    "triton.language.extra.libdevice",
)
"""Modules that a compile for a GPU imports lazily."""


def import_steps(accelerated: bool) -> Iterator[None]:
    """Import the rest of the compiler, one module a step, without compiling anything."""
    from tcexplore.capture import install_hooks

    modules = (*COMPILER_MODULES, *install_hooks.module_names(), *LAZY_MODULES)
    for module in (*modules, *GPU_MODULES) if accelerated else modules:
        gc.disable()
        with contextlib.suppress(Exception):  # a broken module fails when a job needs it
            importlib.import_module(module)
        gc.enable()
        yield
    gc.collect()
    gc.freeze()


def vector_steps() -> Iterator[None]:
    """Have torch test, in processes that it starts, which vector instructions this machine can use: one set a step."""
    with contextlib.suppress(Exception):  # otherwise, each run tests it
        from torch._inductor import cpu_vec_isa

        from tcexplore.capture.inductor.library_files import whole_libraries

        flags = set(cpu_vec_isa.x86_isa_checker())
        for isa in cpu_vec_isa.supported_vec_isa_list:
            if flags.issuperset(str(isa).split()):
                with whole_libraries():
                    bool(isa)  # torch keeps the result
                yield


def prime_steps(device: str) -> Iterator[float]:
    """Prime a process that serves one run, in steps: from initializing the device to compiling with a backward.

    Yield the seconds to wait for the job before the next step.
    """
    import torch

    if device == "cuda":
        with contextlib.suppress(Exception):  # the run reports a device that fails
            torch.cuda.init()
    yield 0
    for backend, backward in (("eager", False), ("inductor", False), ("inductor", True)):
        compile_tiny_model(device, (backend,), backward=backward)
        yield 0


def warm_steps(threads: int) -> Iterator[float]:
    """Warm up a forked process for a run on a CPU, in steps: what each child has to do again.

    It starts its threads for parallel regions, and copies pages of memory that it shares with the server. Yield the
    seconds to wait for the job before the next step.
    """
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)  # the first call loads what seeds each kind of device
    matrix = torch.ones(512, 512)
    torch.nn.functional.layer_norm(torch.nn.functional.gelu(matrix @ matrix), (512,))
    yield 0
    compile_tiny_model("cpu", ("eager",))
    yield 0
    for module in list(sys.modules.values()):
        vars(module).get("")
    yield 0
    with hooks_installed():
        pass
    gc.collect()
    gc.freeze()
    yield 0


@contextlib.contextmanager
def hooks_installed() -> Iterator[None]:
    """Install the hooks of a run, so that the run finds everything that they touch in memory."""
    from tcexplore.capture.hooks import Hooks
    from tcexplore.capture.install_hooks import install_all
    from tcexplore.capture.user_files import UserFiles

    hooks = Hooks(lambda _: None)
    trace = install_all(hooks, UserFiles(""))
    try:
        yield
    finally:
        trace.remove()
        hooks.remove()


def prime_fork_server() -> None:
    """Prime a process that forks others: it must not run a parallel region, or its children hang in their first one."""
    import torch

    torch.set_num_threads(1)
    with _progress_bars_unshared():
        compile_tiny_model("cpu")
        if backward_survives_fork():
            compile_tiny_model("cpu", backward=True)
    with contextlib.suppress(OSError, ValueError):  # the run reports it
        read_registry(os.path.dirname(torch.__file__))
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _progress_bars_unshared() -> Iterator[None]:
    """Have tqdm, which each compile uses, share no lock with children of this process, and start no thread in it."""
    bars = process_setup.unshare_progress_bars()
    if bars is None:
        yield
        return
    interval, bars.monitor_interval = bars.monitor_interval, 0
    try:
        yield
    finally:
        bars.monitor_interval = interval


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
    try:
        ChildProbe(function).result()
    except RuntimeError:
        return False
    return True


CACHED_REGISTRATIONS = (
    "torch._inductor.decomposition:fast_random_decomps",
    "torch._subclasses.fake_tensor:torch_decomp_decompositions",
    "torch._subclasses.functional_tensor:_can_decompose_fast",
    "torch._dynamo.trace_rules:get_mod_inlinelist",
    "torch._dynamo.trace_rules:get_legacy_mod_inlinelist",
    "torch._dynamo.trace_rules:get_mod_skiplist",
)
"""Cached functions of torch that copy tables to which the model file may add: decompositions, modules to inline."""


def forget_compiles() -> None:
    """Clear what compiles leave in torch: state, counters, and caches of registrations to which model files add."""
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for symbol in CACHED_REGISTRATIONS:
        module, _, name = symbol.partition(":")
        function = getattr(sys.modules.get(module), name, None)
        getattr(function, "cache_clear", lambda: None)()


def compile_tiny_model(
    device: str, backends: tuple[str, ...] = ("inductor", "aot_eager"), *, backward: bool = False
) -> None:
    """Compile a tiny model with the first backend that works, in inference or with its backward.

    Without a C++ compiler, that is `aot_eager`. It compiles in this process: Inductor's pool would be another one that
    imports torch.
    """
    import torch
    from torch._inductor import config

    from tcexplore.capture.inductor.library_files import whole_libraries
    from tcexplore.worker import torch_settings

    torch_settings.set_options(lambda _: None)
    for backend in backends:
        try:
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU()).to(device)
            example = torch.ones(4, 8, device=device)
            with config.patch(compile_threads=1), whole_libraries():
                compiled = torch.compile(model, backend=backend)
                with torch.set_grad_enabled(backward):
                    result = compiled(example)
                if backward:
                    result.sum().backward()
        except Exception:  # noqa: BLE001  any failure of the compiler appears again in the first run, which reports it
            torch._dynamo.reset()
        else:
            break
    forget_compiles()
