"""Compiles of a model in this process with the capture's hooks installed."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config

from tcexplore.capture.dynamo import dynamo_graphs
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import aten_graphs, fusion_decisions, inductor_trace, kernels
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's deprecation warnings about itself
    import torch._inductor.codegen.cpp
    import torch._inductor.codegen.triton
    from torch._inductor.graph import GraphLowering

    from tests.capture import no_gpu as no_gpu

torch._inductor.config.compile_threads = 1  # a pool of processes would import torch for each process of the tests

MODULES: tuple[ModuleType, ...] = (
    dynamo_graphs, aten_graphs, kernels, fusion_decisions, inductor_trace,
)  # fmt: skip
"""Capture modules that are installed by default."""


@contextlib.contextmanager
def watching(file: str, *, traced: bool = True, modules: tuple[ModuleType, ...] = MODULES) -> Iterator[list[Event]]:
    """Install the hooks of `modules` inside this context and collect their events for the model file `file`.

    If not `traced`, there is no handler for torch's structured trace, so torch does not format its texts.
    """
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace, user_files = StructuredTrace(hooks), UserFiles(file)
    for module in modules:
        module.install(hooks, trace, user_files)
    if traced:
        trace.install()
    try:
        yield events
    finally:
        trace.remove()
        hooks.remove()


def compiled(
    model: Any, inputs: tuple[Any, ...], *, train: bool = False, gpu: bool = False, code_only: bool = False
) -> Any:
    """Compile and run a model, with a backward pass to `train`, and return its output.

    For a `gpu` or with `code_only`, only the code is generated, and the graph runs eagerly.
    """
    backend = no_gpu.backend if gpu else no_gpu.cpu_backend if code_only else "inductor"
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        program = torch.compile(model, backend=backend)
        with contextlib.nullcontext() if train else torch.no_grad():
            output = program(*inputs)
            total = loss(output) if train else None
            if isinstance(total, torch.Tensor):
                total.backward()
            return output


def generated(action: Callable[[], Any]) -> list[str]:
    """Return the text of every module that Inductor writes during `action`, without AOTAutograd's graph number."""
    texts: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", texts.append):
        action()
    return [_without_graph_number(text) for text in texts]


def generated_for_gpu(model: Any, inputs: tuple[Any, ...], file: str | None, *, train: bool = False) -> list[str]:
    """Return the same for a simulated GPU, where nothing runs; with hooks if a model `file` is given."""
    with contextlib.ExitStack() as stack:
        texts = stack.enter_context(no_gpu.stop_after_codegen())
        if file is not None:
            stack.enter_context(watching(file))
        compiled(model, inputs, train=train, gpu=True)
    return [_without_graph_number(text) for text in texts]


def _without_graph_number(text: str) -> str:
    return re.sub(r"^# AOT ID: .*$", "", text, flags=re.MULTILINE)


def loss(output: Any) -> torch.Tensor:
    """Return the sum of the means of an output's differentiable tensors."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return sum(leaf.float().mean() for leaf in leaves if leaf.is_floating_point() and leaf.requires_grad)


def captured(
    model: Any,
    inputs: tuple[Any, ...],
    file: str,
    *,
    train: bool = False,
    gpu: bool = False,
    code_only: bool = False,
    modules: tuple[ModuleType, ...] = MODULES,
) -> list[Event]:
    """Return the events of one compile."""
    with contextlib.ExitStack() as stack:
        if gpu or code_only:
            stack.enter_context(no_gpu.stop_after_codegen())
        events = stack.enter_context(watching(file, modules=modules))
        compiled(model, inputs, train=train, gpu=gpu, code_only=code_only)
    return events
