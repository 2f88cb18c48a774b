"""Where a run is: its phase now, and the seconds since its job arrived."""

from __future__ import annotations

import time

from tcexplore.capture.hooks import Emit
from tcexplore.events import PhaseStarted


class Progress:
    """Emits `PhaseStarted`; `phase` is the latest, `file` before the first."""

    def __init__(self, emit: Emit) -> None:
        self.phase = "file"
        self._emit = emit
        self._arrived = time.perf_counter()

    def enter(self, phase: str, graph: str | None = None) -> None:
        """A phase begins."""
        self.phase = phase
        self._emit(PhaseStarted(phase=phase, graph=graph, at=self.now()))

    def now(self) -> float:
        """Seconds since the job arrived."""
        return time.perf_counter() - self._arrived
