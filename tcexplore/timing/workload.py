"""The workload of a measurement: the same calls of the user's program, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Pause = Callable[[float], bool]
"""Pauses for the given seconds, 0 between pairs; may do other work, and returns whether it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Two ways to run one timed unit: all calls with the user's inputs, in order.

    Neither way synchronizes the device; the timer does.
    """

    eager: Callable[[], object]
    compiled: Callable[[], object]
    calls: int
    """Calls in one unit; reported times are per call."""
    train: bool
    """Whether a unit includes the backward pass."""
    device: torch.device
    reset: Callable[[], None] | None = None
    """Undoes the side effects of a unit: clears gradients, restores mutated inputs. Runs untimed before each unit."""
    context: Callable[[], AbstractContextManager[object]] = nullcontext
    """Sets the grad mode. The timer enters it once per block, so that it does not count as part of a call."""

    def in_context(self, run: Callable[[], object]) -> Callable[[], None]:
        """Return a function that runs one of the two ways inside `context`."""

        def run_in_context() -> None:
            with self.context():
                run()

        return run_in_context
