"""What is timed: the same calls of the user's program, once eager and once compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Two ways to run one timed unit: all calls that the user's inputs ask for, in turn.

    `eager` and `compiled` take their inputs from where the worker bound them, and include the backward pass when
    `train` is set. They must be run inside `around()`, which sets the grad mode: the timer enters it once per block,
    so that setting it does not count as part of a call. Neither synchronizes the device: the timer does, too.
    `reset` undoes what one unit leaves behind (gradients back to None, mutated inputs restored). It runs before each
    unit, outside the timed region, so a block is one unit long where it is set; None lets a block repeat the unit.
    `calls` counts the calls of one unit: times are divided by it and reported per call.
    """

    eager: Callable[[], object]
    compiled: Callable[[], object]
    calls: int
    train: bool
    device: torch.device
    reset: Callable[[], None] | None = None
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def alone(self, run: Callable[[], object]) -> Callable[[], None]:
        """One of the two ways, to be run by itself."""

        def inside() -> None:
            with self.around():
                run()

        return inside
