"""The workload of a measurement: the same calls of the user's program, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class PageFaults(NamedTuple):
    """Minor page faults of one eager call, before and after tcexplore examined the results of both sides."""

    before: float
    after: float


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
    page_faults: PageFaults | None = None
    """None if they are unknown, or if nothing was examined before the timing."""

    def in_context(self, run: Callable[[], object]) -> Callable[[], None]:
        """Return a function that runs one of the two ways inside `context`."""

        def run_in_context() -> None:
            with self.context():
                run()

        return run_in_context

    def count_page_faults(self) -> float | None:
        """Return the minor page faults of a warm eager call; None on systems that do not count them."""
        try:
            from resource import RUSAGE_SELF, getrusage
        except ImportError:
            return None
        run = self.in_context(self.eager)
        counts = []
        for _ in range(3):
            if self.reset is not None:
                self.reset()
            before = getrusage(RUSAGE_SELF).ru_minflt
            run()
            counts.append((getrusage(RUSAGE_SELF).ru_minflt - before) / self.calls)
        if self.reset is not None:
            self.reset()
        return min(counts[1:])
