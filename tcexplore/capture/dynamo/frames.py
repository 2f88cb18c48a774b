"""How many frames have been compiled so far, by torch's own compilation metrics."""

from __future__ import annotations

from tcexplore.capture.trace import StructuredTrace, TraceEvent


class FrameCounter:
    """`compiled` counts the frames that got guarded code, forward only."""

    def __init__(self, trace: StructuredTrace) -> None:
        self.compiled = 0
        trace.subscribe("frames that a call compiled", "compilation_metrics", self._take)

    def _take(self, event: TraceEvent) -> None:
        self.compiled += bool(event.meta.get("has_guarded_code"))
