"""After the compile: is the answer still right, and what does it take in memory?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.named_tensors import size_of
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.memory import cuda_graph_pools, memory_reading, peak_meter, saved_for_backward
from tcexplore.events import Accuracy, Memory
from tcexplore.quantities import size
from tcexplore.worker.event_recorder import Heard
from tcexplore.worker.program import Function, Program


class Examination:
    """Compares both sides of a program that is compiled between `__init__` and `compiled`."""

    def __init__(self, program: Program, hooks: Hooks, heard: Heard) -> None:
        self._program = program
        self._hooks = hooks
        self._heard = heard
        self._holding = memory_reading(program.device)
        self._held = self._holding.read()
        self._adds: int | None = None

    def compiled(self) -> None:
        """Note what compiling added to the memory that is held, before anything else is done."""
        held = self._holding.read()
        self._adds = None if held is None or self._held is None else held - self._held

    def report(self) -> None:
        """Emit `Accuracy` and `Memory`; what fails costs that fact only."""
        self._hooks.emit(self._accuracy())
        self._program.restore()
        self._hooks.attempt("memory", "torch.profiler:profile", self._say_memory)
        self._program.restore()

    def _accuracy(self) -> Accuracy:
        from tcexplore.accuracy.accuracy_check import measure

        try:
            return measure(self._subject())
        except Exception as error:
            said = str(error).partition("\n")[0]
            return Accuracy(verdict="not judged", reason=f"{type(error).__name__}: {said}")

    def _subject(self) -> Subject:
        redraws = self._program.inductor_draws
        return replace(self._program.subject(), unrandomized=self._unrandomized if redraws else None)

    def _unrandomized(self, warm: Callable[[Function], None]) -> Function:
        """Compiled once more, and none of it shown."""
        function = self._program.unrandomized()
        with self._hooks.silenced():
            warm(function)
        return function

    def _say_memory(self) -> None:
        program = self._program
        how = peak_meter(program.device)
        peaks = [how.peak(partial(self._once, side)) for side in (program.eager, program.compiled)]
        peaks[1] += self._in_graphs()
        module = program.module
        weights = [] if module is None else [*module.parameters(), *module.buffers()]
        self._hooks.emit(
            Memory(
                device=program.device.type,
                method=how.method,
                weights=size_of(weights),
                inputs=size_of(program.tensors()),
                eager_peak=peaks[0],
                compiled_peak=peaks[1],
                compiling_adds=self._adds,
                compiling_method=self._holding.method,
                saved_for_backward=self._saved(weights) if program.train else None,
                notes=self._notes(),
            )
        )

    def _in_graphs(self) -> int:
        """Bytes that replays use at the most: no call allocates them, they were taken when the graphs were recorded."""
        return max((recorded.peak_bytes or 0 for recorded in self._heard.cuda_graphs), default=0)

    def _notes(self) -> tuple[str, ...]:
        pools = cuda_graph_pools(self._program.device)
        if not pools:
            return ()
        said = f"CUDA graphs keep {size(pools)} of their own, which no call allocates anew"
        peak = self._in_graphs()
        return (f"{said}: {size(peak)} of it was in use while they were recorded, and counts as compiled's",)

    def _once(self, side: Function) -> None:
        """Every call, the outputs let go after each."""
        for call in self._program.entry.calls:
            self._program.call(side, call)
            self._program.restore()

    def _saved(self, weights: list[torch.Tensor]) -> int:
        """Of the call that keeps most."""
        program = self._program
        known = [*weights, *program.tensors()]
        return max(
            saved_for_backward(lambda call=call: program.eager(*call.args, **call.kwargs), known)  # type: ignore[misc]
            for call in program.entry.calls
        )
