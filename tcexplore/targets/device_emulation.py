"""Emulation of an absent GPU in torch's and Triton's Python code, with properties from the device table.

Triton's interpreter runs the user's own kernels.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.util import find_spec
from itertools import chain
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo.device_interface as interfaces
from torch._inductor.codecache import PyCodeCache
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad
from torch._inductor.runtime import hints
from torch._subclasses import fake_tensor

from tcexplore.capture.hooks import Hooks
from tcexplore.targets.device_table import Target


class AbsentDriver:
    """A Triton driver for an absent device."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = SimpleNamespace(get_device_properties=self._properties)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.target.backend, self.target.arch, self.target.properties.warp_size)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:  # noqa: ARG002
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def _properties(self, _: int) -> dict[str, int]:
        p = self.target.properties
        facts = {
            "max_shared_mem": p.shared_memory_per_block_optin,
            "multiprocessor_count": p.multi_processor_count,
            "max_num_regs": p.regs_per_multiprocessor,
            "warpSize": p.warp_size,
            "sm_clock_rate": p.clock_rate,
            "mem_clock_rate": p.memory_clock_rate,
            "mem_bus_width": p.memory_bus_width,
        }
        return {name: value for name, value in facts.items() if value is not None}


@contextlib.contextmanager
def emulate_device(target: Target) -> Iterator[None]:
    """Make torch and Triton see `target` as device 0. Nothing is loaded or launched."""
    _fill_tables()
    with contextlib.ExitStack() as stack:
        patches = (_patterns(), _cuda(target), _interfaces(target), _fake_tensors(), _loading(), _versions(target))
        for patch in chain.from_iterable(patches):
            stack.enter_context(patch)
        stack.enter_context(_driver(AbsentDriver(target)))
        _clear_caches()
        try:
            yield
        finally:
            _clear_caches()


@contextlib.contextmanager
def patch_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a module or class while the context is active."""
    missing = object()
    original = vars(owner).get(name, missing)  # not getattr: it would unwrap static methods and find inherited ones
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


@contextlib.contextmanager
def _patch_items(mapping: MutableMapping[Any, Any], items: Mapping[Any, Any]) -> Iterator[None]:
    """Set items of a mapping while the context is active, and undo all other changes to it as well."""
    original = dict(mapping)
    mapping.update(items)
    try:
        yield
    finally:
        mapping.clear()
        mapping.update(original)


def _fill_tables() -> None:
    """Fill, for the CPU, the tables that torch fills only once, for the first device."""
    interfaces.get_interface_for_device("cpu")
    # The call must match torch's own: each function caches by its arguments, and filling its tables again fails.
    joint_graph.lazy_init(torch.device("cpu"))
    for passes in (post_grad, pre_grad):
        passes.lazy_init()


def _do_nothing(*_: Any, **__: Any) -> None:
    """Replace an operation on the device."""


def _patterns() -> Iterator[Any]:
    for passes in (joint_graph, post_grad, pre_grad):
        yield patch_attribute(passes, "lazy_init", _do_nothing)


def _cuda(target: Target) -> Iterator[Any]:
    state = torch.get_rng_state()
    functions: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda *_: target.properties,
        "get_device_capability": lambda *_: target.capability,
        "get_device_name": lambda *_: target.properties.name,
        "is_bf16_supported": lambda *_, **__: target.backend == "hip" or target.capability >= (8, 0),
        "is_tf32_supported": lambda: target.backend == "cuda" and target.capability >= (8, 0),
        "get_rng_state": lambda *_: state,
        "set_rng_state": lambda *_, **__: None,
        "synchronize": lambda *_: None,
        "_exchange_device": lambda _: 0,
        "_maybe_exchange_device": lambda _: 0,
        "mem_get_info": lambda *_: (target.properties.total_memory, target.properties.total_memory),
    }
    for name, function in functions.items():
        if hasattr(torch.cuda, name):
            yield patch_attribute(torch.cuda, name, function)


def _interfaces(target: Target) -> Iterator[Any]:
    major, minor = target.capability
    compute = target.arch if target.backend == "hip" else major * 10 + minor
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda *_: target.properties,
        "get_compute_capability": lambda *_: compute,
        "is_triton_capable": lambda *_: True,
        "raise_if_triton_unavailable": lambda *_: None,
        "is_bf16_supported": lambda *_, **__: target.backend == "hip" or target.capability >= (8, 0),
        "synchronize": lambda *_: None,
        "exchange_device": lambda _: 0,
        "maybe_exchange_device": lambda _: 0,
    }
    absent = type("AbsentCuda", (interfaces.CudaInterface,), {k: staticmethod(v) for k, v in answers.items()})
    yield _patch_items(interfaces.device_interfaces, {"cuda": absent, "cuda:0": absent})
    yield _patch_items(interfaces.caching_worker_device_properties, {"cuda": [target.properties]})
    yield _patch_items(interfaces.caching_worker_current_devices, {"cuda": 0})


class UnloadedModule(SimpleNamespace):
    """A placeholder for the generated module, which is not run."""

    @staticmethod
    def call(*_: Any) -> tuple[Any, ...]:
        raise RuntimeError("this code was generated for a device that is absent from this machine")


def _fake_tensors() -> Iterator[Any]:
    """Let `torch.tensor(…, device=…)` make its data on the CPU: with a GPU, torch would make them there."""
    if hasattr(fake_tensor.FakeTensorMode, "avoid_device_init"):
        yield patch_attribute(fake_tensor.FakeTensorMode, "avoid_device_init", True)


def _loading() -> Iterator[Any]:
    if hasattr(fake_tensor, "init_gpu_context"):
        yield patch_attribute(fake_tensor, "init_gpu_context", _do_nothing)

    def unloaded(key: str, path: str, *_: Any, **__: Any) -> Any:
        return UnloadedModule(__file__=path, key=key)

    yield patch_attribute(PyCodeCache, "load_by_key_path", staticmethod(unloaded))


def _versions(target: Target) -> Iterator[Any]:
    hip = target.backend == "hip"
    yield patch_attribute(torch.version, "hip", "7.0" if hip else None)
    if torch.version.cuda is None or hip:
        yield patch_attribute(torch.version, "cuda", None if hip else "13.0")
    if hip and hasattr(hints, "TRITON_MAX_BLOCK"):
        yield _patch_items(hints.TRITON_MAX_BLOCK, {"X": 8192})


@contextlib.contextmanager
def _driver(absent: AbsentDriver) -> Iterator[None]:
    from triton.runtime import driver

    before = getattr(driver, "_active", None)
    driver.set_active(absent)
    try:
        yield
    finally:
        driver._active = before


_CACHING_MODULES = ("torch._inductor", "torch.utils._triton", "torch._dynamo.device_interface")


def _clear_caches() -> None:
    """Clear torch's caches of device properties, which differ between targets."""
    for cached in _device_caches():
        cached.cache_clear()
    create = getattr(hints.DeviceProperties, "create", None)
    getattr(getattr(create, "__func__", create), "cache_clear", lambda: None)()


@functools.cache
def _device_caches() -> tuple[Any, ...]:
    """Return torch's cached functions whose result depends on the device."""
    functions = {
        function
        for name, module in list(sys.modules.items())
        if name.startswith(_CACHING_MODULES)
        for function in list(vars(module).values())
        if isinstance(function, functools._lru_cache_wrapper) and function.__name__ in _DEVICE_FUNCTIONS
    }
    return tuple(functions)


_DEVICE_FUNCTIONS = frozenset({
    "_device_supports_tma", "datasheet_tops", "get_backend_num_stages", "get_device_tflops", "get_gpu_dram_gbps",
    "get_gpu_type", "get_max_num_sms", "has_datacenter_blackwell_tma_device", "has_triton", "has_triton_stable_tma_api",
    "has_triton_experimental_host_tma", "has_triton_tensor_descriptor_host_tma", "has_triton_tma",
    "has_triton_tma_device", "is_big_gpu", "triton_backend", "triton_hash_with_backend", "using_b200",
    "_warn_tf32_disabled",
})  # fmt: skip


_JIT, _AUTOTUNER = "triton.runtime.jit:JITFunction", "triton.runtime.autotuner:Autotuner"


class InterpreterDriver(AbsentDriver):
    """A Triton driver that describes the target, while tensors stay on the CPU."""

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cpu


def interpret_user_kernels(target: Target, hooks: Hooks) -> None:
    """Interpret every Triton kernel that the program calls, if this machine has no GPU.

    While Dynamo traces a call, it compiles the kernel for `target` to learn which arguments it writes.
    """
    if torch.cuda.is_available() or find_spec("triton") is None:
        return
    from triton.runtime import driver

    driver.set_active(InterpreterDriver(target))
    # Dynamo recognizes Triton kernels only if this function returns True.
    hooks.wrap("Triton kernels in graphs", "torch.utils._triton:has_triton", lambda _: lambda *_, **__: True)
    hooks.wrap("results of Triton kernels", f"{_JIT}.run", functools.partial(_interpret_launches, hooks))
    hooks.wrap("results of Triton kernels", f"{_JIT}.__call__", _interpret_device_functions)
    hooks.wrap("results of autotuned Triton kernels", f"{_AUTOTUNER}.run", _use_first_config)


def _interpret_launches(hooks: Hooks, compile_and_launch: Callable[..., Any]) -> Callable[..., Any]:
    failed: set[str] = set()

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return compile_and_launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        from triton.runtime.interpreter import InterpretedFunction

        interpreted = InterpretedFunction(kernel.fn)
        interpreted.pre_run_hooks = kernel.pre_run_hooks
        try:
            interpreted.run(*args, grid=grid, warmup=False, **kwargs)
        except Exception as error:  # noqa: BLE001  the interpreter lacks features; only the kernel's results are lost
            name = str(kernel.__name__)
            if name not in failed:
                failed.add(name)
                hooks.report_missing(f"results of the Triton kernel {name}", "triton.runtime.interpreter",
                                     f"{type(error).__name__}: {str(error)[:500]}")  # fmt: skip
        return None

    return run


def _interpret_device_functions(_: Callable[..., Any]) -> Callable[..., Any]:
    """Interpret a function that a kernel calls, and restore Triton's language afterwards, as a launch does."""

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        from triton.runtime import interpreter

        scope = interpreter._patch_lang(function.fn)
        try:
            return interpreter.InterpretedFunction(function.fn).rewrite()(*args, **kwargs)
        finally:
            scope.restore()

    return call


def _use_first_config(autotune: Callable[..., Any]) -> Callable[..., Any]:
    """Run the first configuration, since an absent device can't measure them."""

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        configs = tuner.configs
        tuner.configs = configs[:1]
        try:
            return autotune(tuner, *args, **kwargs)
        finally:
            tuner.configs = configs

    return run
