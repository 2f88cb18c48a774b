"""What recompiles if only the values in the inputs change: code after a graph break, which torch compiles for a value.

The calls of a file have the same inputs each time, so that its own run does not show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tcexplore.accuracy.input_variations import OTHER_VALUES, have_equal_tensors, vary
from tcexplore.capture.entry import Call
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import events_apart
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FrameEntered, Location, OtherValuesTried, Recompiled, ValueRecompile
from tcexplore.worker.fork_policy import call_in_copy, can_fork
from tcexplore.worker.program import Program

FACT = "recompiles with other values"
SYMBOL = "tcexplore.worker.other_values"

LIMIT_S = 20.0
"""Seconds for all calls, whose compiles are those of the user's backend."""

LAST_BEGIN_S = 8.0
"""Seconds after which no further call begins."""


@dataclass(frozen=True, slots=True)
class OtherValues:
    """Repeats the first call of a program with other values, in a copy of this process. Nothing is known on a GPU,
    which a copy cannot use.
    """

    program: Program
    hooks: Hooks
    user_files: UserFiles
    restore: Callable[[], object]
    """Sets the program's state back to that before its first call."""

    def run(self) -> None:
        """Make the calls and emit what recompiled. Raises `OSError`, `RuntimeError`."""
        if self.program.device.type != "cpu" or not can_fork():
            return
        first = self.program.entry.calls[0]
        calls = [call for change in OTHER_VALUES if not have_equal_tensors(first, call := vary(first, change))]
        if not calls:
            return
        number, made = call_in_copy(lambda: self._make(calls), LIMIT_S)
        recompiles = tuple(
            ValueRecompile(frame=Location(**frame) if frame else None, call=call, seconds=seconds)
            for frame, call, seconds in made
        )
        self.hooks.emit(OtherValuesTried(calls=number, recompiles=recompiles))

    def _make(self, calls: list[Call]) -> tuple[int, list[tuple[Any, int, float]]]:
        """Return how many calls were made, and what each compiled again for a value. For a copy of the process."""
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # the copy has no thread or process of a pool
        made: list[tuple[Any, int, float]] = []
        # No backward: it cannot run in a copy once torch built for CUDA has compiled something.
        make = self.program.forward if self.program.train else self.program.call
        with events_apart(self.hooks, self.user_files) as events:
            began = time.monotonic()
            for number, call in enumerate(calls):
                if number and time.monotonic() - began > LAST_BEGIN_S:
                    return number, made
                self.restore()
                events.clear()
                start = time.monotonic()
                make(self.program.compiled, call)
                seconds = time.monotonic() - start
                made += [(frame, number + 1, seconds) for frame in _compiled_for_a_value(events)]
        return len(calls), made


def _compiled_for_a_value(events: list[Event]) -> list[dict[str, Any] | None]:
    """Return the resume functions that compiled again for another value of a break. Raises `RuntimeError`."""
    causes = [event for event in events if isinstance(event, Recompiled) and event.origin == "break"]
    if any(cause.limit_hit for cause in causes):
        raise RuntimeError("the recompile limit is reached")
    again = {cause.graph for cause in causes}
    resumed = (event for event in events if isinstance(event, FrameEntered) and event.resumed)
    frames = {event.graph: event.frame for event in resumed if event.graph in again}
    return [asdict(frame) if frame else None for frame in frames.values()]
