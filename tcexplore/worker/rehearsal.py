"""Rehearsal: the process that waits for the next save compiles the first graph of the last run.

The next program has mostly the same ops on the same shapes, and torch caches what it computes for them: result shapes,
and generated code for matrix products. The process also gets copies of the pages that a compile and a graph break
write, which it shares with the fork server until then.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from tcexplore.capture.entry.entry_inputs import dtypes_by_name
from tcexplore.events import FxNode
from tcexplore.events.commands import Rehearsal
from tcexplore.worker.priming import forget_compiles, hooks_installed


def rehearse_steps(rehearsal: Rehearsal) -> Iterator[None]:
    """Run the graph eagerly, then compile it with the hooks of a run. Any error ends the rehearsal: it is optional."""
    try:
        with _settings(rehearsal):
            module, inputs = _module(rehearsal), [_tensor(node) for node in rehearsal.inputs]
            module(*inputs)
        yield

        def call_and_break() -> None:
            module(*inputs)
            torch._dynamo.graph_break()

        with _settings(rehearsal), hooks_installed():
            torch.compile(call_and_break, backend="eager")()
        yield
    except Exception:  # noqa: BLE001  the graph may need ops and objects that only the model file has
        return
    finally:
        forget_compiles()
        gc.freeze()


@contextlib.contextmanager
def _settings(rehearsal: Rehearsal) -> Iterator[None]:
    with warnings.catch_warnings(action="ignore"), torch.set_grad_enabled(rehearsal.grad):
        yield


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
