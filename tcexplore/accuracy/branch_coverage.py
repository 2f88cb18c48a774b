"""Branches of the user's code that a call takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from tcexplore.events import BranchTest, Span

Position = tuple[int | None, int | None, int | None, int | None]


class BranchCoverage:
    """Records, for each test of a branch or loop, whether it held in calls made in the context.

    The next instruction after the test tells: it is inside the body if the test held.
    """

    def __init__(self, tests: Iterable[BranchTest]) -> None:
        self.tests = tuple(tests)
        self.taken: set[tuple[BranchTest, bool]] = set()
        self._pending: dict[FrameType, BranchTest] = {}
        self._positions: dict[CodeType, list[Position]] = {}
        self._previous: Any = None

    @property
    def missing(self) -> tuple[tuple[BranchTest, bool], ...]:
        """The outcomes that no call had."""
        return tuple((test, held) for test in self.tests for held in (True, False) if (test, held) not in self.taken)

    def __enter__(self) -> None:
        self._previous = sys.gettrace()
        if self.tests:
            sys.settrace(self._trace_call)

    def __exit__(self, *_: object) -> None:
        if self.tests:
            sys.settrace(self._previous)
        self._pending.clear()

    def _trace_call(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG002
        code = frame.f_code
        if not any(test.file == code.co_filename for test in self.tests):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "opcode":
            code = frame.f_code
            positions = self._positions.get(code)
            if positions is None:
                positions = self._positions[code] = list(code.co_positions())
            index = frame.f_lasti // 2
            if index < len(positions):
                self._record(frame, code.co_filename, positions[index])
        elif event == "exception":
            self._pending.pop(frame, None)
        elif event == "return" and (test := self._pending.pop(frame, None)) is not None:
            self.taken.add((test, False))
        return self._trace_opcode

    def _record(self, frame: FrameType, file: str, position: Position) -> None:
        line, end_line, column, end_column = position
        if line is None or column is None or end_line is None or end_column is None:
            return
        at, end, pending = (line, column), (end_line, end_column), self._pending.get(frame)
        if pending is not None and at < pending.test[:2] and end > pending.test[2:]:
            return  # the jump, which has the position of the statement
        inside = [test for test in self.tests if test.file == file and _within(at, test.test)]
        if pending is not None and pending not in inside:  # the next test may follow at once, as with elif
            del self._pending[frame]
            self.taken.add((pending, _within(at, pending.body)))
        if inside:
            self._pending[frame] = inside[-1]


def _within(at: tuple[int, int], span: Span) -> bool:
    return (span[0], span[1]) <= at < (span[2], span[3])
