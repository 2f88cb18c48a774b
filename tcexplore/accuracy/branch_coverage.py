"""Branches and loops whose test held, or did not, in some calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from tcexplore.events import BranchTest, Span

Position = tuple[int | None, int | None, int | None, int | None]

Outcome = tuple[BranchTest, bool]
"""A test, and whether it held."""


class BranchCoverage:
    """Records, for each test of a branch or loop, whether it held in calls made in the context.

    The next instruction after the test tells: it is inside the body if the test held.
    """

    def __init__(self, tests: Iterable[BranchTest]) -> None:
        self.tests = tuple(tests)
        self.taken: set[Outcome] = set()
        self._files = {test.file for test in self.tests}
        self._pending: dict[FrameType, BranchTest] = {}
        self._positions: dict[CodeType, list[Position]] = {}

    @property
    def missing(self) -> tuple[Outcome, ...]:
        """The outcomes that no call had."""
        return tuple((test, held) for test in self.tests for held in (True, False) if (test, held) not in self.taken)

    def __enter__(self) -> None:
        if self.tests:
            self._start()

    def __exit__(self, *_: object) -> None:
        if self.tests:
            self._stop()
        self._pending.clear()

    if sys.version_info >= (3, 12):
        # From 3.12 on, a trace function gets no opcodes of a function's first call.

        def _start(self) -> None:
            events = sys.monitoring.events
            self._tool = next(tool for tool in reversed(range(6)) if sys.monitoring.get_tool(tool) is None)
            self._observed = set[CodeType]()
            sys.monitoring.use_tool_id(self._tool, "tcexplore")
            callbacks: dict[int, Callable[..., object]] = {
                events.PY_START: self._observe_code,
                events.PY_RESUME: self._observe_code,
                events.INSTRUCTION: lambda _, offset: self._at_instruction(sys._getframe(1), offset),
                events.PY_RETURN: lambda *_: self._at_return(sys._getframe(1)),
                events.RAISE: lambda *_: self._at_exception(sys._getframe(1)),
            }
            for event, callback in callbacks.items():
                sys.monitoring.register_callback(self._tool, event, callback)
            sys.monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME | events.RAISE)

        def _stop(self) -> None:
            sys.monitoring.set_events(self._tool, 0)
            for code in self._observed:
                sys.monitoring.set_local_events(self._tool, code, 0)
            for event in ("PY_START", "PY_RESUME", "INSTRUCTION", "PY_RETURN", "RAISE"):
                sys.monitoring.register_callback(self._tool, getattr(sys.monitoring.events, event), None)
            sys.monitoring.free_tool_id(self._tool)

        def _observe_code(self, code: CodeType, _: int) -> None:
            if code.co_filename in self._files and code not in self._observed:
                self._observed.add(code)
                events = sys.monitoring.events
                sys.monitoring.set_local_events(self._tool, code, events.INSTRUCTION | events.PY_RETURN)

    else:

        def _start(self) -> None:
            self._previous = sys.gettrace()
            sys.settrace(self._trace_call)

        def _stop(self) -> None:
            sys.settrace(self._previous)

        def _trace_call(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG002
            if frame.f_code.co_filename not in self._files:
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return self._trace_opcode

        def _trace_opcode(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "opcode":
                self._at_instruction(frame, frame.f_lasti)
            elif event == "exception":
                self._at_exception(frame)
            elif event == "return":
                self._at_return(frame)
            return self._trace_opcode

    def _at_instruction(self, frame: FrameType, offset: int) -> None:
        code = frame.f_code
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        line, end_line, column, end_column = self._positions[code][offset // 2]
        if line is None or column is None or end_line is None or end_column is None:
            return
        at, end, pending = (line, column), (end_line, end_column), self._pending.get(frame)
        if pending is not None and at < pending.test[:2] and end > pending.test[2:]:
            return  # the jump, which has the position of the statement
        inside = [test for test in self.tests if test.file == code.co_filename and _within(at, test.test)]
        if pending is not None and pending not in inside:  # the next test may follow at once, as with elif
            del self._pending[frame]
            self.taken.add((pending, _within(at, pending.body)))
        if inside:
            self._pending[frame] = inside[-1]

    def _at_return(self, frame: FrameType) -> None:
        if (test := self._pending.pop(frame, None)) is not None:
            self.taken.add((test, False))

    def _at_exception(self, frame: FrameType) -> None:
        self._pending.pop(frame, None)


def _within(at: tuple[int, int], span: Span) -> bool:
    return (span[0], span[1]) <= at < (span[2], span[3])
