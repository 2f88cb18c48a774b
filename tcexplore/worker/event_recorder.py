"""What a run made known so far that a later step of it needs again."""

from __future__ import annotations

from tcexplore.capture.hooks import Emit
from tcexplore.events import CudaGraphRecorded, Event, Kernel, Wrapper
from tcexplore.targets.target_names import NATIVE


class Heard:
    """Hands every event on, and keeps the device's own kernels, wrappers and CUDA graphs."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.kernels: list[Kernel] = []
        self.wrappers: list[Wrapper] = []
        self.cuda_graphs: list[CudaGraphRecorded] = []

    def emit(self, event: Event) -> None:
        """Take an event on its way."""
        if isinstance(event, Kernel) and event.target == NATIVE:
            self.kernels.append(event)
        elif isinstance(event, Wrapper) and event.target == NATIVE:
            self.wrappers.append(event)
        elif isinstance(event, CudaGraphRecorded):
            self.cuda_graphs.append(event)
        self._emit(event)
