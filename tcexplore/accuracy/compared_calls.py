"""What is compared: the same calls of the user's program, once eager and once compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcexplore.capture.entry.entry import Call

if TYPE_CHECKING:
    import torch

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program in its forms, and how to call them.

    `call(function, call)` makes one call as the run does, with its backward pass to `train`, and returns the output.
    `restore` gives inputs their values back and forgets gradients; `seed` seeds every generator. `module` is what
    holds the parameters, None for a function. `unrandomized(warm)` compiles once more so that random numbers are drawn
    as eager draws them, and has `warm` call it for the first time; None where compiled draws them so anyway.
    """

    eager: Function
    compiled: Function
    calls: tuple[Call, ...]
    call: Callable[[Function, Call], Any]
    restore: Callable[[], None]
    seed: Callable[[], None]
    train: bool
    module: torch.nn.Module | None = None
    unrandomized: Callable[[Callable[[Function], None]], Function] | None = None
