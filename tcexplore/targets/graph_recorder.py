"""Keeps every graph that Dynamo captures, to lower it for a target once the run's own code is there, and for others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import CompileContext, compile_context

from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event
from tcexplore.targets.device_table import Target
from tcexplore.targets.lowering import lower
from tcexplore.targets.retarget import copied

CALL_BACKEND = "torch._dynamo.output_graph:OutputGraph.call_user_compiler"


@dataclass(frozen=True, slots=True)
class Captured:
    """A Dynamo graph as it was before the backend changed it, with the compile that it belongs to, and whether its
    caller asked for gradients."""

    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    compile: CompileContext | None
    grad: bool = True


class Companion:
    """The graphs of all that is compiled between `install` and `close`; `emit` is what the hooks emit with, tagged.

    They are lowered after the run's own compile, whose time is measured, and need no new trace of the user's program.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.emit = emit
        self.captured: list[Captured] = []
        self._before: list[Captured] = []
        self._open = True

    def install(self, hooks: Hooks) -> bool:
        """Keep each graph that its own backend compiled; False where this torch has no place for it."""
        return hooks.watch("code for a target", CALL_BACKEND, before=self._arrived, after=self._done, failed=self._lost)

    def close(self) -> None:
        """What is compiled from here on is no part of the user's program."""
        self._open = False

    def lower(self, target: Target) -> None:
        """Generate the code of every graph for `target`; to be called again for another one."""
        self.close()
        for captured in self.captured:
            current = compile_context(captured.compile) if captured.compile else contextlib.nullcontext()
            with current, torch.set_grad_enabled(captured.grad):
                lower(captured.graph, captured.inputs, target, self.emit)

    def _arrived(self, _: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> None:
        self._before.append(
            Captured(copied(gm), tuple(example_inputs), CompileContext.try_get(), torch.is_grad_enabled())
        )

    def _done(self, *_: Any, **__: Any) -> None:
        captured = self._before.pop()
        if self._open:
            self.captured.append(captured)

    def _lost(self, *_: Any, **__: Any) -> None:
        self._before.pop()
