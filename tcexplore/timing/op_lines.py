"""Eager ops with the line of the user's files that called each."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tcexplore.capture.inductor.call_profile import mark
from tcexplore.capture.inductor.profiler_tree import OP
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location
from tcexplore.events.inductor_events import GraphPhase

CALIBRATION_OPS = 64


class OpLine(NamedTuple):
    """Where an op was called; a backward op has the location of its forward op."""

    location: Location | None
    """None outside the user's files, and for a backward op whose forward op is unknown."""
    phase: GraphPhase


class TimedOp(NamedTuple):
    """One op of an eager call."""

    line: OpLine
    ns: int
    """Time on the host, without its overhead on an empty op."""


class OpRecorder(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Records line and time of each op below autograd, forward and backward.

    The sequence number of an autograd node, which it gets right before its forward op is dispatched, leads from a
    backward op to the line of the forward op. With `mark`, each op is also marked in the profile.
    """

    supports_higher_order_operators = True

    def __init__(self, user_files: UserFiles, *, mark: bool = False) -> None:
        super().__init__()
        self.ops: list[TimedOp] = []
        self.overhead_ns = 0
        self._user_files = user_files
        self._mark = mark
        self._forward_lines: dict[int, Location | None] = {}
        self._current_node: Any = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._locations: dict[tuple[str, int], Location] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        line = self._line()
        with self._marked():
            start = perf_counter_ns()
            result = func(*args, **(kwargs or {}))
            spent = perf_counter_ns() - start
        self.ops.append(TimedOp(line, max(0, spent - self.overhead_ns)))
        return result

    def calibrate(self) -> None:
        """Measure the time of an op that does nothing: what the detour through Python and the dispatcher cost."""
        tensor, self.overhead_ns = torch.empty(1), 0
        with self:
            for _ in range(CALIBRATION_OPS):
                tensor.detach()
        self.overhead_ns = sorted(op.ns for op in self.ops)[len(self.ops) // 2]
        self.ops = []

    def _marked(self) -> AbstractContextManager[object]:
        return mark(f"{OP}{len(self.ops)}") if self._mark else nullcontext()

    def _line(self) -> OpLine:
        node = self._current_node()
        if node is not None:
            return OpLine(self._forward_lines.get(node._sequence_nr()), "backward")
        location = self._innermost()
        self._forward_lines.setdefault(torch.autograd._get_sequence_nr() - 1, location)
        return OpLine(location, "forward")

    def _innermost(self) -> Location | None:
        frame = sys._getframe(3)
        while frame is not None and not self._user_files.owns(frame.f_code.co_filename):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return None
        key = frame.f_code.co_filename, frame.f_lineno
        if key not in self._locations:
            self._locations[key] = self._user_files.location(*key, frame.f_code.co_name)
        return self._locations[key]
