"""The user's stack at a point of the trace: from where their program runs into the compiled region and on to the
line that Dynamo is looking at."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

from tcexplore.capture.user_files import UserFiles, function_name, is_resumed
from tcexplore.events import Location

_ENTRY = "eval_frame.py"


class UserStack(NamedTuple):
    """The user's frames, outermost first: `callers` lead to the compiled function, `inside` is what it runs."""

    callers: tuple[Location, ...]
    inside: tuple[Location, ...]

    @property
    def whole(self) -> tuple[Location, ...]:
        return self.callers + self.inside


class _Frame(NamedTuple):
    filename: str
    lineno: int | None
    name: str


def user_stack(project: UserFiles, traced: Iterable[Any] | None) -> UserStack:
    """The whole stack: the Python frames above Dynamo, then the frames it is tracing (`exc.real_stack`).

    The part of a function that Dynamo resumes after a graph break is a function of its own, called by the first
    part; they are shown as the one function that they are.
    """
    callers, running = _frames_above(project)
    being_traced = [_Frame(f.filename, f.lineno, f.name) for f in traced or () if project.owns(f.filename)]
    return UserStack(project.frames(callers), project.frames(_resumed_as_one([*running, *being_traced])))


def _frames_above(project: UserFiles) -> tuple[list[_Frame], list[_Frame]]:
    """The user's frames outside and inside the outermost call into Dynamo, outermost first."""
    callers: list[_Frame] = []
    running: list[_Frame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_ENTRY):
            running, callers = [*callers, *running], []
        elif project.owns(code.co_filename):
            callers.insert(0, _Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return callers, running


def _resumed_as_one(frames: list[_Frame]) -> list[_Frame]:
    kept: list[_Frame] = []
    for frame in frames:
        before = kept[-1] if kept and is_resumed(frame.name) else None
        if before and (before.filename, function_name(before.name)) == (frame.filename, function_name(frame.name)):
            kept.pop()
        kept.append(frame)
    return kept
