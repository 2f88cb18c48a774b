"""Makes `is_cuda` true for a program that requires a GPU, on a machine without one."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables import ConstantVariable

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location
from tcexplore.events.target_events import DeviceQueried
from tcexplore.targets.device_queries import innermost_line

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
