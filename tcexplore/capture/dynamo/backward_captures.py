"""Why compiled autograd captured a backward anew: torch's own reasons, from its structured trace."""

from __future__ import annotations

import json
from collections.abc import Callable

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BackwardCaptured

FACT = "why a backward was captured anew"
SYMBOL = "torch._dynamo.compiled_autograd:snapshot_verbose_logging_enabled"
REASONS = "compiled_autograd_compile_reasons"


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Have torch note its reasons, which it does while its verbose log is on, and listen for them."""

    def noting(_original: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: True

    def captured(event: TraceEvent) -> None:
        """A list of all captures in this look-up, each as `!1: Cache miss due to …`: the last is the one to come."""
        last = json.loads(event.payload or "[]")[-1:]
        for said in last:
            backward, _, reason = said.removeprefix("!").partition(": ")
            hooks.emit(BackwardCaptured(backward=backward, reason=reason))

    hooks.wrap(FACT, SYMBOL, noting)
    trace.subscribe(FACT, REASONS, captured)
