"""Code generation without execution, for tests; generates Triton code on a machine without a GPU.

Graphs move to a simulated device after they are partitioned, and code generation stops before the module is loaded.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._dynamo.device_interface as interfaces
import torch._inductor.fx_passes.joint_graph as joint_graph
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import detect_fake_mode
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.graph import GraphLowering
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

_PROPERTIES = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, warp_size=32, gcnArchName="",
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    L2_cache_size=62914560, total_memory=150109880320, clock_rate=1980000, memory_clock_rate=3201000,
    memory_bus_width=6016,
)  # fmt: skip
_GUARD = """#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace { C10_REGISTER_GUARD_IMPL(CUDA, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>) }
"""
_CUDA = torch.device("cuda", 0)


class CodeReady(BaseException):
    """Raised when the code is complete. Not an `Exception`, which torch would wrap."""


@contextlib.contextmanager
def stop_after_codegen() -> Iterator[list[str]]:
    """End each compile in this context with `CodeReady` when the wrapper is complete, and collect its text.

    Enter it before hooks are installed.
    """
    texts: list[str] = []

    def stop(_lowering: Any, wrapper_code: Any) -> None:
        texts.append(wrapper_code.value)
        raise CodeReady

    with mock.patch.object(GraphLowering, "_compile_to_module_lines", stop):
        yield texts


def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
    """Generate Triton code for the graph and its backward, and run the original graph on the CPU."""
    _device_guard()
    original = copy.deepcopy(gm)
    for node in original.graph.nodes:
        if node.target is torch._C._nn.scaled_dot_product_attention:
            node.target = _efficient_attention
    original.recompile()
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        compile_fx(original, example_inputs, inner_compile=_generate_for_gpu)
    return gm.forward


def cpu_backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
    """Generate C++ code for the graph and its backward, without compiling it."""
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        compile_fx(copy.deepcopy(gm), example_inputs, inner_compile=_generate)
    return gm.forward


def _generate_for_gpu(gm: torch.fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Any:
    runnable = copy.deepcopy(gm)
    with _simulated_gpu():
        _generate(gm, _moved(gm, inputs), **kwargs)
    return make_boxed_func(runnable.forward)


def _generate(gm: torch.fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Any:
    runnable = make_boxed_func(copy.deepcopy(gm).forward)
    options = (
        "static_input_idxs",
        "is_backward",
        "graph_id",
        "is_inference",
        "boxed_forward_device_index",
        "layout_opt",
        "cudagraphs",
    )
    with contextlib.suppress(CodeReady):
        compile_fx_inner(gm, inputs, **{k: v for k, v in kwargs.items() if k in options})
    return runnable


def _moved(gm: torch.fx.GraphModule, inputs: list[Any]) -> list[Any]:
    """Move the graph to the simulated device, in place, and return its inputs there."""
    mode = detect_fake_mode(inputs)

    def device(value: Any) -> Any:
        return _CUDA if isinstance(value, torch.device) and value.type == "cpu" else value

    def tensor(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")

    for node in gm.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, device), map_aggregate(node.kwargs, device)
    gm.recompile()
    moved = [tensor(value) for value in inputs]
    FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*moved)
    return moved


@contextlib.contextmanager
def _simulated_gpu() -> Iterator[None]:
    answers: dict[str, Callable[..., Any]] = {
        "current_device": lambda: 0, "device_count": lambda: 1, "is_available": lambda: True,
        "get_device_properties": lambda _=None: _PROPERTIES, "get_compute_capability": lambda _=None: 90,
        "is_triton_capable": lambda _=None: True, "raise_if_triton_unavailable": lambda _=None: None,
        "synchronize": lambda _=None: None, "is_bf16_supported": lambda *_, **__: True,
        "exchange_device": lambda _: 0, "maybe_exchange_device": lambda _: 0,
    }  # fmt: skip
    interfaces.get_interface_for_device("cpu")
    joint_graph.lazy_init(torch.device("cpu"))
    fake = type("FakeCuda", (interfaces.CudaInterface,), {k: staticmethod(v) for k, v in answers.items()})
    patches = (
        mock.patch.dict(interfaces.device_interfaces, {"cuda": fake, "cuda:0": fake}),
        mock.patch.dict(interfaces.caching_worker_device_properties, {"cuda": [_PROPERTIES]}),
        mock.patch.dict(interfaces.caching_worker_current_devices, {"cuda": 0}),
        mock.patch.object(torch.cuda, "get_device_properties", return_value=_PROPERTIES),
        mock.patch.object(torch.cuda, "get_device_capability", return_value=(9, 0)),
        mock.patch.object(torch.cuda, "device_count", return_value=1),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
        mock.patch("torch._inductor.scheduler.has_triton", return_value=True),
        mock.patch.object(joint_graph, "lazy_init"),
    )
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def _efficient_attention(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                         is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    if enable_gqa:
        k = k.repeat_interleave(q.size(-3) // k.size(-3), -3)
        v = v.repeat_interleave(q.size(-3) // v.size(-3), -3)
    mask = attn_mask
    if mask is not None:
        if mask.dtype == torch.bool:
            zero, masked = (torch.scalar_tensor(n, dtype=q.dtype, device=q.device) for n in (0.0, float("-inf")))
            mask = torch.where(mask, zero, masked)
        mask = mask.expand(q.size(0), q.size(1), q.size(2), k.size(2))
    gradient = torch.is_grad_enabled()
    attention = torch.ops.aten._scaled_dot_product_efficient_attention
    return attention(q, k, v, mask, gradient, dropout_p, is_causal, scale=scale)[0]


@functools.cache
def _device_guard() -> None:
    """Install a device guard, so that a torch built without CUDA can hold CUDA tensors, and a driver for Triton."""
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: GPUTarget("cuda", 90, 32),
            get_current_device=lambda: 0,
            get_current_stream=lambda _=0: 0,
            get_active_torch_device=lambda: _CUDA,
        )
    )
    if torch.version.cuda is not None:
        torch._C._ensureCUDADeviceGuardSet()
        return
    folder, root = Path(tempfile.mkdtemp()), Path(torch.__file__).parent
    (folder / "guard.cpp").write_text(_GUARD)
    options = ["-O1", "-fPIC", "-shared", "-std=c++20", f"-I{root / 'include'}", f"-L{root / 'lib'}"]
    library = folder / "guard.so"
    subprocess.run(["g++", *options, str(folder / "guard.cpp"), "-o", str(library), "-lc10"], check=True)
    ctypes.CDLL(str(library))
