"""Accuracy checks of programs with a handwritten compiled side, whose errors are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tcexplore.accuracy.accuracy_check import check_accuracy
from tcexplore.accuracy.observation import Function, Subject
from tcexplore.capture.entry import Call
from tcexplore.events import Accuracy


def check(
    eager: Function,
    compiled: Function,
    *inputs: Any,
    train: bool = False,
    module: torch.nn.Module | None = None,
    unrandomized: Callable[[Callable[[Function], None]], Function] | None = None,
) -> Accuracy:
    """Check one call of both sides with `inputs` as arguments."""

    def make_call(function: Function, call: Call) -> Any:
        if not train:
            with torch.no_grad():
                return function(*call.args)
        output = function(*call.args)
        output.mean().backward()
        return output

    subject = Subject(
        eager=eager, compiled=compiled, calls=(Call(args=inputs),), call=make_call, restore=lambda: None,
        seed=lambda: torch.manual_seed(0) and None, train=train, module=module, unrandomized=unrandomized,
    )  # fmt: skip
    return check_accuracy(subject)
