"""Answers that torch takes from a real device while it compiles, and what stands for them on a machine without one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor.fx_passes import joint_graph, pad_mm
from torch._subclasses import fake_impls, fake_tensor
from torch.utils import _pytree as pytree

from tcexplore.targets.retarget import DEVICE

Note = Callable[[str], None]


@contextlib.contextmanager
def assuming(note: Note) -> Iterator[None]:
    """While inside, constants are folded on the CPU, and what torch would measure is assumed; `note` is told what."""
    with contextlib.ExitStack() as stack:
        for patch in (_fold_on_cpu(), *_padding(note), *_kernels_without_meta(note)):
            stack.enter_context(patch)
        yield


def _fold_on_cpu() -> Any:
    """Constants such as `aten.full(..., device=...)` are computed for real while the joint graph is folded."""
    folder = joint_graph.UniformValueConstantFolder
    name = "_deduce_value" if hasattr(folder, "_deduce_value") else "run_node"
    original = getattr(folder, name)

    def on_cpu(self: Any, node: torch.fx.Node) -> Any:
        if node.op != "call_function" or node.kwargs.get("device") is None:
            return original(self, node)
        kept = node.kwargs
        node.kwargs = {**kept, "device": torch.device("cpu")}
        try:
            return original(self, node)
        finally:
            node.kwargs = kept

    return mock.patch.object(folder, name, on_cpu)


def _padding(note: Note) -> Iterator[Any]:
    """Whether a matrix product is padded to an aligned size is measured where it is not plain from the shapes."""

    def unmeasured(key: str) -> bool:
        note(f"torch measures on the device whether padding this product pays; taken as no: {key[:200]}")
        return False

    if hasattr(pad_mm, "get_cached_should_pad"):
        yield mock.patch.object(pad_mm, "get_cached_should_pad", unmeasured)


def _kernels_without_meta(note: Note) -> Iterator[Any]:
    """An op without a meta kernel is run for real to learn what it returns: on zeros, on the CPU."""
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
        note(f"{func} cannot say the layout of its result without running; it is that of the CPU's kernel")
        return pytree.tree_map_only(torch.Tensor, lambda out: _elsewhere(mode, out), result) if moved else result

    yield mock.patch.object(fake_tensor, "run_fallback_kernel", on_cpu)
    if hasattr(fake_impls, "run_fallback_kernel"):
        yield mock.patch.object(fake_impls, "run_fallback_kernel", on_cpu)


def _elsewhere(mode: Any, out: torch.Tensor) -> torch.Tensor:
    with mode:
        return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=DEVICE)
