"""What Python asks a GPU about itself while Inductor generates code: answered from the device table, for a while."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._dynamo.device_interface as interfaces
from torch._inductor.codecache import PyCodeCache
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad
from torch._inductor.runtime import hints
from torch._subclasses import fake_tensor

from tcexplore.targets.device_table import Target


class Absent:
    """Triton's active driver for a device that is not there."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = SimpleNamespace(get_device_properties=self._properties)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.target.backend, self.target.arch, self.target.properties.warp_size)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return device * 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def _properties(self, _: int) -> dict[str, int]:
        p = self.target.properties
        return {
            "max_shared_mem": p.shared_memory_per_block_optin,
            "multiprocessor_count": p.multi_processor_count,
            "max_num_regs": p.regs_per_multiprocessor,
            "warpSize": p.warp_size,
            "sm_clock_rate": p.clock_rate,
            "mem_clock_rate": p.memory_clock_rate,
            "mem_bus_width": p.memory_bus_width,
        }


@contextlib.contextmanager
def answering(target: Target) -> Iterator[None]:
    """While inside, torch's and Triton's Python believe in `target` as device 0; nothing is loaded or launched."""
    _before()
    with contextlib.ExitStack() as stack:
        for patch in (*_patterns(), *_cuda(target), *_interfaces(target), *_loading(), *_versions(target)):
            stack.enter_context(patch)
        stack.enter_context(_driver(Absent(target)))
        _forget()
        try:
            yield
        finally:
            _forget()


def _before() -> None:
    """Tables that torch fills once, on the first device that asks, are filled for the CPU first: they stay."""
    interfaces.get_interface_for_device("cpu")
    # Called as torch calls them: each remembers what it was called with, and fails when it fills its tables twice.
    joint_graph.lazy_init(torch.device("cpu"))
    for passes in (post_grad, pre_grad):
        passes.lazy_init()


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for what would be done to a device."""


def _patterns() -> Iterator[Any]:
    for passes in (joint_graph, post_grad, pre_grad):
        yield mock.patch.object(passes, "lazy_init", _nothing)


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
            yield mock.patch.object(torch.cuda, name, function)


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
    yield mock.patch.dict(interfaces.device_interfaces, {"cuda": absent, "cuda:0": absent})
    yield mock.patch.dict(interfaces.caching_worker_device_properties, {"cuda": [target.properties]})
    yield mock.patch.dict(interfaces.caching_worker_current_devices, {"cuda": 0})


class Unloaded(SimpleNamespace):
    """Stands where the generated module would be: it was written, and is not run on a device that is not there."""

    @staticmethod
    def call(*_: Any) -> tuple[Any, ...]:
        raise RuntimeError("this code was generated for a device that is not in this machine")


def _loading() -> Iterator[Any]:
    if hasattr(fake_tensor, "init_gpu_context"):
        yield mock.patch.object(fake_tensor, "init_gpu_context", _nothing)

    def unloaded(key: str, path: str, *_: Any, **__: Any) -> Any:
        return Unloaded(__file__=path, key=key)

    yield mock.patch.object(PyCodeCache, "load_by_key_path", staticmethod(unloaded))


def _versions(target: Target) -> Iterator[Any]:
    hip = target.backend == "hip"
    yield mock.patch.object(torch.version, "hip", "7.0" if hip else None)
    if torch.version.cuda is None or hip:
        yield mock.patch.object(torch.version, "cuda", None if hip else "13.0")
    if hip and hasattr(hints, "TRITON_MAX_BLOCK"):
        yield mock.patch.dict(hints.TRITON_MAX_BLOCK, {"X": 8192})


@contextlib.contextmanager
def _driver(absent: Absent) -> Iterator[None]:
    from triton.runtime import driver

    before = getattr(driver, "_active", None)
    driver.set_active(absent)
    try:
        yield
    finally:
        driver._active = before


_REMEMBERING = ("torch._inductor", "torch.utils._triton", "torch._dynamo.device_interface")


def _forget() -> None:
    """Empty what torch caches about "the" device: with another target, or none, the answers are others."""
    for cached in _caches():
        cached.cache_clear()
    create = getattr(hints.DeviceProperties, "create", None)
    getattr(getattr(create, "__func__", create), "cache_clear", lambda: None)()


@functools.cache
def _caches() -> tuple[Any, ...]:
    """Those of torch's cached functions whose answer is about the device."""
    wanted = {
        function
        for name, module in list(sys.modules.items())
        if name.startswith(_REMEMBERING)
        for function in list(vars(module).values())
        if isinstance(function, functools._lru_cache_wrapper) and function.__name__ in _ABOUT_THE_DEVICE
    }
    return tuple(wanted)


_ABOUT_THE_DEVICE = frozenset({
    "_device_supports_tma", "datasheet_tops", "get_backend_num_stages", "get_device_tflops", "get_gpu_dram_gbps",
    "get_gpu_type", "get_max_num_sms", "has_datacenter_blackwell_tma_device", "has_triton", "has_triton_stable_tma_api",
    "has_triton_experimental_host_tma", "has_triton_tensor_descriptor_host_tma", "has_triton_tma",
    "has_triton_tma_device", "is_big_gpu", "triton_backend", "triton_hash_with_backend", "using_b200",
    "_warn_tf32_disabled",
})  # fmt: skip
