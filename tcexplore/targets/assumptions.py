"""Assumptions in place of results that torch computes or measures on a real device while it compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor.fx_passes import joint_graph, pad_mm
from torch._subclasses import fake_impls, fake_tensor
from torch.utils import _pytree as pytree

from tcexplore.targets.device_emulation import patch_attribute
from tcexplore.targets.retarget import DEVICE

Note = Callable[[str], None]


@contextlib.contextmanager
def assume_measurements(note: Note) -> Iterator[None]:
    """Fold constants on the CPU and assume measured results, passing each assumption to `note`."""
    with contextlib.ExitStack() as stack:
        for patch in (_fold_on_cpu(), *_padding(note), *_kernels_without_meta(note)):
            stack.enter_context(patch)
        yield


def _fold_on_cpu() -> Any:
    """Compute constants such as `aten.full(..., device=...)` on the CPU when the joint graph is folded."""
    folder = joint_graph.UniformValueConstantFolder
    name = "_deduce_value" if hasattr(folder, "_deduce_value") else "run_node"
    original = getattr(folder, name)

    def on_cpu(self: Any, node: torch.fx.Node) -> Any:
        if node.op != "call_function" or node.kwargs.get("device") is None:
            return original(self, node)
        original_kwargs = node.kwargs
        node.kwargs = {**original_kwargs, "device": torch.device("cpu")}
        try:
            return original(self, node)
        finally:
            node.kwargs = original_kwargs

    return patch_attribute(folder, name, on_cpu)


def _padding(note: Note) -> Iterator[Any]:
    """Assume no padding of matrix products; torch benchmarks it if the shapes do not decide."""

    def unmeasured(key: str) -> bool:
        note(f"torch benchmarks on the device whether to pad this matmul; assumed not: {key[:200]}")
        return False

    if hasattr(pad_mm, "get_cached_should_pad"):
        yield patch_attribute(pad_mm, "get_cached_should_pad", unmeasured)


def _kernels_without_meta(note: Note) -> Iterator[Any]:
    """Run ops without a meta kernel on the CPU, on zeros, to learn the layout of their results."""
    original = getattr(fake_tensor, "run_fallback_kernel", None)
    if original is None:
        return

    def on_cpu(mode: Any, func: Any, flat_args: Any, args_spec: Any, error: Any) -> Any:
        moved = [a for a in flat_args if mode.is_our_fake(a) and a.fake_device.type == DEVICE.type]
        for argument in moved:
            argument.fake_device = torch.device("cpu")
        try:
            result = original(mode, func, flat_args, args_spec, error)
        finally:
            for argument in moved:
                argument.fake_device = DEVICE
        note(f"{func} has no meta kernel; assuming the result layout of the CPU kernel")
        return pytree.tree_map_only(torch.Tensor, lambda out: _on_target(mode, out), result) if moved else result

    yield patch_attribute(fake_tensor, "run_fallback_kernel", on_cpu)
    if hasattr(fake_impls, "run_fallback_kernel"):
        yield patch_attribute(fake_impls, "run_fallback_kernel", on_cpu)


def _on_target(mode: Any, out: torch.Tensor) -> torch.Tensor:
    with mode:
        return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=DEVICE)
