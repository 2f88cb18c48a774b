"""Lowers for a target, beside the run, every graph that Dynamo captures; and again for another target when asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import CompileContext, compile_context

from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event
from tcexplore.targets.lower import lower
from tcexplore.targets.retarget import copied
from tcexplore.targets.table import Target

CALL_BACKEND = "torch._dynamo.output_graph:OutputGraph.call_user_compiler"


@dataclass(frozen=True, slots=True)
class Captured:
    """A Dynamo graph as it was before the backend changed it, with the compile that it belongs to."""

    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    compile: CompileContext | None


class Companion:
    """Code for `target` of all that is compiled from `install` on; `emit` is what the hooks emit with, tagged.

    The graphs are kept, so that `switch` needs no new trace of the person's program.
    """

    def __init__(self, target: Target, emit: Callable[[Event], None]) -> None:
        self.target = target
        self.emit = emit
        self.captured: list[Captured] = []
        self._before: list[Captured] = []

    def install(self, hooks: Hooks) -> bool:
        """Lower each graph once its own backend has finished with it; False where this torch has no place for it."""
        return hooks.watch("code for a target", CALL_BACKEND, before=self._capture, after=self._lower)

    def switch(self, target: Target) -> None:
        """Lower everything captured so far for another target."""
        self.target = target
        for captured in self.captured:
            self._lower_one(captured)

    def _capture(self, _: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> None:
        self._before.append(Captured(copied(gm), tuple(example_inputs), CompileContext.try_get()))

    def _lower(self, *_: Any, **__: Any) -> None:
        captured = self._before.pop()
        self.captured.append(captured)
        self._lower_one(captured)

    def _lower_one(self, captured: Captured) -> None:
        current = compile_context(captured.compile) if captured.compile else contextlib.nullcontext()
        with current:
            lower(captured.graph, captured.inputs, self.target, self.emit)
