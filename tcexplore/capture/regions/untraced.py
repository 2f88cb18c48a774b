"""Functions of ours that the user's program calls while Dynamo is listening: it must not compile them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself; Dynamo runs its frames, and those that they call, as they are.

    Where a function that it traces calls this one, it follows the function's own marks (`_torchdynamo_inline`).
    """
    from torch._dynamo import eval_frame

    code = function.__code__
    try:
        skip = eval_frame.FrameExecStrategy(eval_frame.FrameAction.SKIP, eval_frame.FrameAction.SKIP)
        eval_frame.set_code_exec_strategy(code, skip)
    except AttributeError:
        eval_frame.skip_code(code)
    return function
