"""The compiled frames that eager code calls, and their locals: found by calling the program eagerly.

For a copy of the process only: the call may change the state of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tcexplore.capture.entry.entry import Call
from tcexplore.capture.recompile_check.frame_binding import BoundFrame, original_callable
from tcexplore.events import FrameAnswer

_MAX_MESSAGE = 200


def call_eagerly(
    compiled: Any, call: Call, original: Call, codes: Collection[CodeType], check: Callable[[BoundFrame], FrameAnswer]
) -> tuple[dict[CodeType, FrameAnswer], str]:
    """Return the answer for each frame of `codes` that eager code calls, and the exception that the call raises.

    `original` is the compiled call whose values fill new tensors. Of several calls of a frame, the first that matches
    no cache entry counts. Frames that other frames of `codes` call are not checked: they may be part of their graphs.
    Raises what `check` raises.
    """
    answers: dict[CodeType, FrameAnswer] = {}
    failures: list[Exception] = []
    outer: FrameType | None = None
    threads = torch.get_num_threads()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal outer
        code = frame.f_code
        if outer is None and event == "call" and code in codes:
            outer = frame
            if code not in answers or answers[code].verdict == "matches":
                torch.set_num_threads(threads)  # guards check it
                try:
                    answers[code] = check(BoundFrame(code, dict(frame.f_locals), frame.f_globals))
                except Exception as raised:  # noqa: BLE001  raised here, it would seem to be the model's
                    failures.append(raised)
                finally:
                    torch.set_num_threads(1)
        elif frame is outer and event == "return":
            outer = None

    function, error = original_callable(compiled), ""
    torch.set_num_threads(1)  # a copy of a process has no other threads
    torch.compiler.set_stance("force_eager")
    _fill_new_tensors(call, original)
    sys.setprofile(profile)
    try:
        function(*call.args, **call.kwargs)
    except BaseException as raised:  # noqa: BLE001  the user's code may raise anything, or exit
        error = f"{type(raised).__name__}: {str(raised).strip().partition(chr(10))[0]}"[:_MAX_MESSAGE]
    finally:
        sys.setprofile(None)
    if failures:
        raise failures[0]
    return answers, error


def _fill_new_tensors(call: Call, original: Call) -> None:
    """Give the tensors that only `call` has the values of those at their position, repeated; else random ones.

    Indices then stay valid.
    """
    old = tree_leaves((original.args, original.kwargs))
    for index, tensor in enumerate(tree_leaves((call.args, call.kwargs))):
        if isinstance(tensor, torch.Tensor) and not any(tensor is other for other in old):
            _fill(tensor, old[index] if index < len(old) else None)


def _fill(tensor: torch.Tensor, original: Any) -> None:
    memory = tensor.detach().new_empty(0).set_(tensor.untyped_storage())  # elements of the tensor may overlap
    if isinstance(original, torch.Tensor) and original.numel() and original.layout == torch.strided:
        values = original.detach().flatten()
        memory.copy_(values[torch.arange(memory.numel(), device=values.device) % values.numel()])
    elif memory.is_floating_point():
        memory.normal_()
    else:
        memory.zero_()
