"""Lines where the program checks its device type; a target may take another branch there."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.variables import base

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location
from tcexplore.events.target_events import DeviceQueried

_FACT = "device checks"
_VARIABLES = "torch._dynamo.variables"


def install(hooks: Hooks, user_files: UserFiles) -> None:
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
            hooks.watch(_FACT, f"{_VARIABLES}.tensor:TensorVariable.method_attr_{name}",
                        before=lambda _, tx, *__, a=attribute: record(tx, a))  # fmt: skip
    # Newer torch reads every attribute in one function.
    unified = hasattr(base.VariableTracker, "tp_getattro_impl")
    place = "base:VariableTracker.tp_getattro_impl" if unified else "constant:ConstantVariable.const_getattr"
    hooks.watch(_FACT, f"{_VARIABLES}.{place}", before=on_constant)


def innermost_line(tx: Any, user_files: UserFiles) -> Location | None:
    """Return the innermost traced line in the user's files, else the innermost of all."""
    frames: list[Location] = []
    while tx is not None:
        code = getattr(tx, "f_code", None)
        if code is not None:
            frames.append(Location(code.co_filename, getattr(tx, "lineno", None) or 0, code.co_name))
        tx = getattr(tx, "parent", None)
    return next((f for f in frames if user_files.owns(f.file)), frames[0] if frames else None)
