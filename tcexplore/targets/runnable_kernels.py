"""Kernels as files of their own that run and time themselves on the target: torch's own runnable form."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._inductor.graph import GraphLowering

from tcexplore.events import KernelRunnable
from tcexplore.targets.device_table import Target
from tcexplore.targets.graph_recorder import Captured
from tcexplore.targets.lowering import lower
from tcexplore.targets.target_tag import unseen


def runnable(captured: Captured, target: Target) -> Iterator[KernelRunnable]:
    """Each Triton kernel of a graph and its backward with inputs made up, a call and a benchmark.

    To be run on a machine that has the target. Nothing of this lowering is made known to the hooks.
    """
    codes: list[str] = []
    with (
        unseen(),
        inductor_config.patch(benchmark_kernel=True),
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(codes.append)),
        contextlib.redirect_stderr(io.StringIO()),
        torch.set_grad_enabled(captured.grad),
    ):
        lower(captured.graph, captured.inputs, target, lambda _: None)
    compiled = captured.compile.compile_id if captured.compile else None
    graph = "" if compiled is None else str(compiled)
    for name, source in dict.fromkeys(pair for code in codes for pair in _kernels(code)):
        yield KernelRunnable(graph=graph, kernel=name, target=target.key, source=source)


def _kernels(module: str) -> Iterator[tuple[str, str]]:
    """(name, source) of each `async_compile.triton(name, source, ...)` in a wrapper module."""
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "triton":
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if len(texts) >= 2:
                yield texts[0], texts[1].strip() + "\n"
