"""Rehearsal: the process that waits for the next save compiles the first graph of the last run.

The next program has mostly the same ops on the same shapes, and torch caches what it computes for them: result shapes,
and generated code for matrix products. The process also gets copies of the pages that a compile and a graph break
write, which it shares with the fork server until then.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from tcexplore.capture.entry import dtypes_by_name
from tcexplore.events import FxNode
from tcexplore.events.commands import Rehearsal
from tcexplore.worker.priming import forget_compiles, hooks_installed

QUICK_S = 0.4
"""Maximum seconds of a capture whose graph is also rehearsed through Inductor, which takes about 3 times as long."""

IDLE_S = 0.3
"""Seconds to wait for a save before Inductor is rehearsed: a save that comes meanwhile has to wait for the end."""


def rehearse_steps(rehearsal: Rehearsal, *, primed: bool) -> Iterator[float]:
    """Run the graph eagerly, then compile it with the hooks of a run. Any error ends the rehearsal: it is optional.

    Unless this process is `primed`, its code is not generated: Inductor's first compile takes over a second, for which
    a save would wait. Yield the seconds to wait for the job before the next step.
    """
    try:
        module, inputs = _module(rehearsal), [_tensor(node) for node in rehearsal.inputs]
        with _rehearsing(rehearsal):
            module(*inputs)
        yield 0
        start = time.monotonic()
        with _rehearsing(rehearsal):
            _capture(module, inputs)
        if primed and time.monotonic() - start < QUICK_S:
            yield IDLE_S
            with _rehearsing(rehearsal):
                _generate_code(module, inputs)
    except Exception:  # noqa: BLE001  the graph may need ops and objects that only the model file has
        return


@contextlib.contextmanager
def _rehearsing(rehearsal: Rehearsal) -> Iterator[None]:
    try:
        with warnings.catch_warnings(action="ignore"), torch.set_grad_enabled(rehearsal.grad):
            yield
    finally:
        forget_compiles()
        gc.freeze()


def _capture(module: Any, inputs: list[torch.Tensor]) -> None:
    """Compile the module with Dynamo alone, followed by a graph break."""

    def call_and_break() -> None:
        module(*inputs)
        torch._dynamo.graph_break()

    with hooks_installed():
        torch.compile(call_and_break, backend="eager")()


def _generate_code(module: Any, inputs: list[torch.Tensor]) -> None:
    """Compile the module with Inductor until its code is generated: the C++ compiler is not called. Always raise."""
    from torch._functorch import config as aot_config
    from torch._inductor import config
    from torch._inductor.codecache import PyCodeCache

    from tcexplore.targets.device_emulation import patch_attribute

    uncached = config.patch(compile_threads=1, fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False)
    with hooks_installed(), uncached[0], uncached[1], patch_attribute(PyCodeCache, "load_by_key_path", _refuse):
        torch.compile(module)(*inputs)


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("code of a rehearsal is not loaded")


def _module(rehearsal: Rehearsal) -> Any:
    """Return the module that torch's readable form of the graph defines."""
    names: dict[str, Any] = {"torch": torch, "operator": operator}
    exec(compile(rehearsal.code, "<rehearsal>", "exec"), names)
    return names["GraphModule"]()


def _tensor(node: FxNode) -> torch.Tensor:
    """Return a tensor of zeros for an input of the graph. Raise a `ValueError` if it has symbolic sizes."""
    if node.shape is None or node.stride is None or node.dtype is None:
        raise ValueError(f"{node.name} is not a tensor with strides")
    shape, stride = [int(size) for size in node.shape], [int(step) for step in node.stride]
    tensor = torch.empty_strided(shape, stride, dtype=dtypes_by_name()[node.dtype], device=node.device).zero_()
    return torch.nn.Parameter(tensor, tensor.is_floating_point()) if "_parameters_" in node.name else tensor
