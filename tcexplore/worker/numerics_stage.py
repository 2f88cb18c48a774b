"""The judgement of kernels in a run: its hooks, the calls that are recorded, and the events that it emits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tcexplore.accuracy.accuracy_check import MEMORY_DIVISOR, free_memory
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import NumericsJudged
from tcexplore.numerics.judgement import Judge
from tcexplore.numerics.lowered_graphs import LoweredGraphs
from tcexplore.numerics.wrapper_values import ValueRecorder
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.program import Program

FACT, SYMBOL = "numerics of kernels", "tcexplore.numerics"

LIMIT_S = 240.0
"""Time limit of the stage."""

UNKNOWN_MEMORY = 1 << 30
"""Bytes of copies where the free memory is not known."""


class NumericsStage:
    """Records the graphs of a run as they are lowered, and judges their kernels after the compile."""

    def __init__(self, hooks: Hooks, user_files: UserFiles, recorder: EventRecorder) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._recorder = recorder
        self._graphs = LoweredGraphs()

    def install(self) -> None:
        """Start to record; called again if the calls begin again."""
        self._graphs = LoweredGraphs()
        self._graphs.install(self._hooks)

    def close(self) -> None:
        """Stop recording: later compiles are not the program's."""
        self._graphs.recording = False

    def run(self, program: Program, frames: CompiledFrames, restore: Callable[[], object]) -> None:
        """Call the compiled program twice, and judge the kernels of the first call of each graph."""
        graphs = self._graphs.graphs
        if not graphs:
            self._hooks.emit(NumericsJudged(verdict="not judged", reason="Inductor compiled no graph"))
            return
        free = free_memory(program.device)
        recorder = ValueRecorder(graphs, UNKNOWN_MEMORY if free is None else free // MEMORY_DIVISOR)
        with recorder.recording():
            for _ in range(2):
                restore()
                frames.measure_warm(lambda: program.call_all(program.compiled))
        restore()
        with self._hooks.paused(), torch.no_grad():
            Judge(self._hooks, self._user_files, self._recorder.kernels).judge(graphs, recorder)
        restore()
