"""Compile a model in this process with the capture's hooks on, and take them off again."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config

from tcexplore.capture.dynamo import dynamo_graphs as dynamo
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import aot_graphs as aot
from tcexplore.capture.inductor import cache_lookups as caches
from tcexplore.capture.inductor import fusion_decisions as fusion
from tcexplore.capture.inductor import kernels, wrapper
from tcexplore.capture.inductor import lowering_graph as inductor
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, about itself
    import torch._inductor.codegen.cpp
    import torch._inductor.codegen.triton
    from torch._inductor.graph import GraphLowering

    from tests.capture import no_gpu

_ROOMS = (dynamo, aot, inductor, kernels, wrapper, fusion, caches)


@contextlib.contextmanager
def watching(file: str, *, listening: bool = True) -> Iterator[list[Event]]:
    """Dynamo's graphs and all below are watched while inside; what is known of the user's `file` goes into the list.

    Not `listening` to torch's structured trace spares torch the texts that it writes for it.
    """
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace, project = StructuredTrace(hooks), UserFiles(file)
    for room in _ROOMS:
        room.install(hooks, trace, project)
    if listening:
        trace.install()
    try:
        yield events
    finally:
        trace.remove()
        hooks.remove()


def compiled(model: Any, inputs: tuple[Any, ...], *, train: bool = False, gpu: bool = False) -> Any:
    """Compile and run a model, forward and, to `train`, backward; for a `gpu` nothing but generate the code. Returns
    what the model returns."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        program = torch.compile(model, backend=no_gpu.backend if gpu else "inductor")
        with contextlib.nullcontext() if train else torch.no_grad():
            output = program(*inputs)
            total = loss(output) if train else None
            if isinstance(total, torch.Tensor):
                total.backward()
            return output


def generated(action: Callable[[], Any]) -> list[str]:
    """The text of every module that Inductor writes during `action`, wrapper and kernels, but for AOTAutograd's count
    of the graphs that this process compiled."""
    texts: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", texts.append):
        action()
    return [_uncounted(text) for text in texts]


def generated_for_gpu(model: Any, inputs: tuple[Any, ...], file: str | None, *, train: bool = False) -> list[str]:
    """The same for a make-believe GPU, where nothing is run; watched with a `file` of the user's."""
    with contextlib.ExitStack() as stack:
        texts = stack.enter_context(no_gpu.stopping())
        if file is not None:
            stack.enter_context(watching(file))
        compiled(model, inputs, train=train, gpu=True)
    return [_uncounted(text) for text in texts]


def _uncounted(text: str) -> str:
    return re.sub(r"^# AOT ID: .*$", "", text, flags=re.MULTILINE)


def loss(output: Any) -> torch.Tensor:
    """The mean of every floating-point tensor of an output."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return sum(leaf.float().mean() for leaf in leaves if leaf.is_floating_point() and leaf.requires_grad)


def captured(model: Any, inputs: tuple[Any, ...], file: str, *, train: bool = False, gpu: bool = False) -> list[Event]:
    """The events of one compile."""
    with contextlib.ExitStack() as stack:
        if gpu:
            stack.enter_context(no_gpu.stopping())
        events = stack.enter_context(watching(file))
        compiled(model, inputs, train=train, gpu=gpu)
    return events
