"""Programs whose compiled side is written by hand, so that what is wrong with it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tcexplore.accuracy.accuracy_check import measure
from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.capture.entry.entry import Call
from tcexplore.events import Accuracy


def compared(
    eager: Function,
    compiled: Function,
    *inputs: Any,
    train: bool = False,
    module: torch.nn.Module | None = None,
    unrandomized: Callable[[Callable[[Function], None]], Function] | None = None,
) -> Accuracy:
    """The judgement on one call of both; `inputs` are its arguments."""

    def call(function: Function, one: Call) -> Any:
        if not train:
            with torch.no_grad():
                return function(*one.args)
        output = function(*one.args)
        output.mean().backward()
        return output

    subject = Subject(
        eager=eager, compiled=compiled, calls=(Call(args=inputs),), call=call, restore=lambda: None,
        seed=lambda: torch.manual_seed(0) and None, train=train, module=module, unrandomized=unrandomized,
    )  # fmt: skip
    return measure(subject)
