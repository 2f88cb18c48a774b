"""The user's Triton kernels on a machine without a GPU: Triton's interpreter runs them, so graphs are captured."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.targets.device_emulation import AbsentDriver
from tcexplore.targets.device_table import Target

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
