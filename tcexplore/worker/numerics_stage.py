"""The judgement of kernels in a run: its hooks, the calls that are recorded, and the events that it emits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tcexplore.accuracy.accuracy_check import MEMORY_DIVISOR, free_memory
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job, NumericsJudged
from tcexplore.numerics.graph_stages import Decompositions
from tcexplore.numerics.growth_events import emit_growth
from tcexplore.numerics.judgement import Judge
from tcexplore.numerics.lowered_graphs import LoweredGraphs, adds_by_index
from tcexplore.numerics.wrapper_values import ValueRecorder
from tcexplore.timing.allocator import keep_memory
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.program import Program

FACT, SYMBOL = "numerics of kernels", "tcexplore.numerics"

LIMIT_S = 240.0
"""Time limit of the stage."""

REPEATS_OF_SUMS = 5
"""Further calls of a program that adds to memory by index: a race between threads shows in some of its calls only."""

UNKNOWN_MEMORY = 1 << 30
"""Bytes of copies where the free memory is not known."""


class NumericsStage:
    """Records the graphs of a run as they are lowered, and judges their kernels after the compile."""

    def __init__(self, job: Job, hooks: Hooks, user_files: UserFiles, recorder: EventRecorder) -> None:
        self._job = job
        self._hooks = hooks
        self._user_files = user_files
        self._recorder = recorder
        self._graphs, self._decompositions = LoweredGraphs(), Decompositions()
        self._script: ValueRecorder | None = None

    def install(self) -> None:
        """Start to record; called again if the calls begin again."""
        self._graphs, self._decompositions = LoweredGraphs(), Decompositions()
        self._graphs.install(self._hooks)
        self._decompositions.install(self._hooks)

    def record_script(self) -> None:
        """Record the first call of each graph that a script compiles, while the script goes on."""
        self._script = ValueRecorder(_limit, copy_arguments=True)
        self._graphs.notify = self._script.add

    def close(self) -> None:
        """Stop recording: later compiles are not the program's."""
        self._graphs.recording = self._decompositions.recording = False
        if self._script is not None:
            self._script.close()

    def run(self, program: Program, frames: CompiledFrames, restore: Callable[[], object]) -> None:
        """Call the compiled program twice or more, and judge the kernels of the first call of each graph."""
        repeats = REPEATS_OF_SUMS if any(map(adds_by_index, self._graphs.graphs)) else 1
        recorder = ValueRecorder(_limit, repeats=repeats)
        for graph in self._graphs.graphs:
            recorder.add(graph)
        try:
            for _ in range(1 + repeats):
                restore()
                frames.measure_warm(lambda: program.call_all(program.compiled))
        finally:
            recorder.close()
        restore()
        self._judge(recorder)
        restore()

    def run_script(self) -> None:
        """Judge the kernels that a script called."""
        if self._script is not None:
            self._judge(self._script)

    def _judge(self, recorder: ValueRecorder) -> None:
        graphs = self._graphs.graphs
        if not graphs:
            self._hooks.emit(NumericsJudged(verdict="not judged", reason="Inductor compiled no graph"))
            return
        keep_memory()
        judge = Judge(self._hooks, self._user_files, self._recorder.kernels, self._job.numerics_folder)
        with self._hooks.paused(), torch.no_grad():
            judged = judge.judge(graphs, recorder)
            judge.find_first(judged, self._decompositions.all)
            emit_growth(self._hooks, judged)


def _limit(device: torch.device) -> int:
    free = free_memory(device)
    return UNKNOWN_MEMORY if free is None else free // MEMORY_DIVISOR
