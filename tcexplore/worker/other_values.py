"""What recompiles if only the values in the inputs change: code after a graph break, which torch compiles for a value.

The calls of a file have the same inputs each time, so that its own run does not show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from tcexplore.accuracy.input_variations import REDRAWN, have_equal_tensors, vary
from tcexplore.capture.entry import Call
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import install_all
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FrameEntered, Location, OtherValuesTried, Recompiled, ValueRecompile
from tcexplore.worker.fork_policy import call_in_copy, can_fork
from tcexplore.worker.program import Program

FACT = "recompiles with other values"
SYMBOL = "torch._dynamo.convert_frame"

LIMIT_S = 30.0
"""Seconds for all calls, whose compiles are those of the user's backend."""


@dataclass(frozen=True, slots=True)
class OtherValues:
    """Repeats the first call of a program with other values, in a copy of this process."""

    program: Program
    hooks: Hooks
    user_files: UserFiles
    restore: Callable[[], object]
    """Sets the program's state back to that before its first call."""

    @property
    def possible(self) -> bool:
        """Whether there is a call with other values, and a copy of this process can make it."""
        return self.program.device.type == "cpu" and can_fork() and bool(self._calls)

    def run(self) -> None:
        """Make the calls and emit what recompiled. Raises `OSError`, `RuntimeError`."""
        self.restore()
        made = call_in_copy(self._make_calls, LIMIT_S)
        recompiles = tuple(
            ValueRecompile(frame=Location(**frame) if frame else None, call=call, seconds=seconds)
            for frame, call, seconds in made
        )
        self.hooks.emit(OtherValuesTried(calls=len(self._calls), recompiles=recompiles))

    @property
    def _calls(self) -> list[Call]:
        first = self.program.entry.calls[0]
        varied = (vary(first, variation) for variation in REDRAWN)
        return [call for call in varied if not have_equal_tensors(first, call)]

    def _make_calls(self) -> list[tuple[Any, int, float]]:
        """Return each recompiled resume function, with the number and the seconds of the call. For a copy."""
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # the copy has no thread or process of a pool
        events: list[Event] = []
        hooks = Hooks(events.append)
        made: list[tuple[Any, int, float]] = []
        make = self.program.forward if self.program.train else self.program.call
        with ExitStack() as stack:
            stack.callback(hooks.remove)
            stack.callback(install_all(hooks, self.user_files).remove)
            stack.enter_context(self.hooks.silenced())
            for number, call in enumerate(self._calls, 1):
                events.clear()
                began = time.monotonic()
                make(self.program.compiled, call)
                seconds = time.monotonic() - began
                self.program.restore()
                again = {event.graph for event in events if isinstance(event, Recompiled)}
                resumed = (event for event in events if isinstance(event, FrameEntered) and event.resumed)
                frames = {event.graph: event.frame for event in resumed if event.graph in again}
                made += [(asdict(frame) if frame else None, number, seconds) for frame in frames.values()]
        return made
