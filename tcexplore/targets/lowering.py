"""A Dynamo graph, forward and backward, to the code that Inductor would generate for a target; nothing is run."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as aot_config
import torch._inductor.config as inductor_config
from torch._guards import CompileContext, TracingContext, tracing
from torch._inductor.compile_fx import compile_fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tcexplore.events import Event, TargetLowered, TargetSkipped
from tcexplore.targets import absent_gpu as absent
from tcexplore.targets.assumptions import assuming
from tcexplore.targets.attention_lowering import attention
from tcexplore.targets.device_answers import answering
from tcexplore.targets.device_table import Target
from tcexplore.targets.retarget import inputs_on_target, on_target
from tcexplore.targets.target_tag import lowering_for

Emit = Callable[[Event], None]


def lower(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], target: Target, emit: Emit) -> None:
    """Generate the code of one Dynamo graph, and of its backward where its inputs ask for gradients, for `target`.

    To be called beside a backend with what it was called with; `gm` is left as it is. The code is seen by whatever
    watches Inductor; `emit` gets a `TargetLowered` at the end, or a `TargetSkipped` with what could not be lowered.
    Needs no device, and neither loads nor runs what was generated.
    """
    notes: list[str] = []
    graph, began = _graph(), time.perf_counter()
    try:
        with lowering_for(target.key) as count, _without_device(target, notes.append):
            _compile(gm, example_inputs, target, notes.append)
    except Exception as error:
        emit(TargetSkipped(graph=graph, target=target.key, op=_op(error), reason=_reason(error)))
        return
    emit(TargetLowered(graph=graph, target=target.key, kernels=count(), seconds=time.perf_counter() - began,
                       notes=tuple(dict.fromkeys(notes))))  # fmt: skip


@contextlib.contextmanager
def _without_device(target: Target, note: Callable[[str], None]) -> Iterator[None]:
    """Everything that lets torch compile for a device that is not there; all of it undone on the way out."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(absent.device(target.cudnn))
        stack.enter_context(answering(target))
        stack.enter_context(assuming(note))
        stack.enter_context(inductor_config.patch(_unmeasured(note)))
        stack.enter_context(aot_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True))
        yield


def _unmeasured(note: Callable[[str], None]) -> dict[str, Any]:
    """Inductor's options without those that need the device: nothing cached, nothing measured, nothing recorded."""
    if inductor_config.max_autotune or inductor_config.max_autotune_gemm:
        note("max-autotune measures its candidates on the device; this is the code without it")
    return {
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_pointwise": False,
        "coordinate_descent_tuning": False,
        "triton.cudagraphs": False,
        "compile_threads": 1,
    }


def _compile(gm: torch.fx.GraphModule, inputs: Sequence[Any], target: Target, note: Callable[[str], None]) -> None:
    shapes = _shape_env(gm, inputs)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
    sdpa = attention(target, lambda name: note(f"attention: {name}"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing(TracingContext(mode)))
        if hasattr(shapes, "suppress_guards"):
            # The graph's own guards are the user's; what this lowering takes for granted is none of theirs.
            stack.enter_context(shapes.suppress_guards())
        # Some functions stand in a Dynamo graph whole and call it themselves.
        stack.enter_context(mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", sdpa))
        moved = on_target(gm, {torch._C._nn.scaled_dot_product_attention: sdpa})
        compile_fx(moved, inputs_on_target(gm, inputs, mode))


def _shape_env(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> ShapeEnv:
    """The one whose symbols stand in the graph's sizes, or a new one."""
    values = [n.meta.get("example_value") for n in gm.graph.find_nodes(op="placeholder")]
    for value in (*values, *inputs):
        mode = getattr(value, "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            found: ShapeEnv = mode.shape_env
            return found
    return ShapeEnv()


def _graph() -> str:
    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)


_OPERATOR = re.compile(r"\b(?:aten|prims|torch\.ops)\.[\w.]+|'(?:aten|prims)::[\w.]+'")


def _op(error: BaseException) -> str:
    """The op that an error is about, as far as its text names one."""
    found = _OPERATOR.search(str(error))
    return found.group(0).strip("'").replace("::", ".") if found else ""


def _reason(error: BaseException) -> str:
    inner = getattr(error, "inner_exception", None) or error
    lines = str(inner).strip().splitlines()
    return f"{type(inner).__name__}: {lines[0] if lines else ''}"
