"""Which frames have been compiled so far, by torch's own compilation metrics."""

from __future__ import annotations

from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent


class FrameCounter:
    """`graphs` are the compile ids of the frames that got guarded code, forward only; `compiled` counts them."""

    def __init__(self, trace: StructuredTrace) -> None:
        self.compiled = 0
        self.graphs: list[str] = []
        trace.subscribe("frames that a call compiled", "compilation_metrics", self._take)

    def _take(self, event: TraceEvent) -> None:
        if event.meta.get("has_guarded_code"):
            self.compiled += 1
            self.graphs += [event.graph] if event.graph else []
