"""The checks of the device type in a program: lines that make them, and answers as on a target."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables import ConstantVariable, base

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location
from tcexplore.events.target_events import DeviceQueried

_QUERIES = "device checks"
_VARIABLES = "torch._dynamo.variables"


def record_queries(hooks: Hooks, user_files: UserFiles) -> None:
    """Emit one `DeviceQueried` per traced line that reads `device.type`, `is_cuda` or `is_cpu`."""
    seen: set[tuple[str, Location | None]] = set()

    def record(tx: Any, attribute: str) -> None:
        location = innermost_line(tx, user_files)
        if (attribute, location) not in seen:
            seen.add((attribute, location))
            hooks.emit(DeviceQueried(graph=current_compile_id() or "", attribute=attribute, location=location))

    def on_constant(variable: Any, tx: Any, name: str, *_: Any) -> None:
        if name == "type" and isinstance(getattr(variable, "value", None), torch.device):
            record(tx, "device.type")

    for name in ("is_cuda", "is_cpu"):
        attribute = name
        if hasattr(torch._dynamo.variables.TensorVariable, f"method_attr_{name}"):
            hooks.watch(_QUERIES, f"{_VARIABLES}.tensor:TensorVariable.method_attr_{name}",
                        before=lambda _, tx, *__, a=attribute: record(tx, a))  # fmt: skip
    # Newer torch reads every attribute in one function.
    unified = hasattr(base.VariableTracker, "tp_getattro_impl")
    place = "base:VariableTracker.tp_getattro_impl" if unified else "constant:ConstantVariable.const_getattr"
    hooks.watch(_QUERIES, f"{_VARIABLES}.{place}", before=on_constant)


def innermost_line(tx: Any, user_files: UserFiles) -> Location | None:
    """Return the innermost traced line in the user's files, else the innermost of all."""
    frames: list[Location] = []
    while tx is not None:
        code = getattr(tx, "f_code", None)
        if code is not None:
            frames.append(Location(code.co_filename, getattr(tx, "lineno", None) or 0, code.co_name))
        tx = getattr(tx, "parent", None)
    return next((f for f in frames if user_files.owns(f.file)), frames[0] if frames else None)


_FACT = "is_cuda as on the target"
_TORCH = os.path.dirname(torch.__file__) + os.sep
_GPU = re.compile(r"\b(cuda|gpu)\b", re.I)


def requires_gpu(error: BaseException) -> bool:
    """Return whether the program raised an error because its tensors are not on a GPU."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_TORCH)]
    if not frames or torch.cuda.is_available():
        return False
    last = frames[-1]
    lines = linecache.getlines(last.filename)[(last.lineno or 1) - 1 : last.end_lineno or last.lineno]
    raised = any(line.lstrip().startswith(("raise", "assert")) for line in lines)
    return raised and bool("is_cuda" in "".join(lines) or _GPU.search(str(error)))


def answer_as_target(hooks: Hooks, user_files: UserFiles) -> None:
    """Make `is_cuda` true for code outside of torch, in eager calls and while Dynamo traces."""
    seen: set[Location | None] = set()

    def in_dynamo(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_cuda(variable: Any, tx: Any) -> Any:
            if tx.f_code.co_filename.startswith(_TORCH):
                return original(variable, tx)
            location = innermost_line(tx, user_files)
            if location not in seen:
                seen.add(location)
                query = DeviceQueried(
                    graph=current_compile_id() or "", attribute="is_cuda", location=location, as_target=True
                )
                hooks.emit(query)
            return ConstantVariable.create(True)

        return is_cuda

    hooks.wrap(_FACT, "torch:Tensor.is_cuda", _in_eager_calls)
    hooks.wrap(_FACT, "torch._dynamo.variables:TensorVariable.method_attr_is_cuda", in_dynamo)


def _in_eager_calls(original: Any) -> Any:
    def is_cuda(tensor: torch.Tensor) -> bool:
        inside = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        return bool(original.__get__(tensor)) if inside else True

    return property(is_cuda)
