"""The current position of the trace: compile id and user's stack, and the user's frames of an FX node."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

from torch._guards import CompileContext

from tcexplore.capture.user_files import StackFrame, UserFiles
from tcexplore.events import Location
from tcexplore.torch_text.dynamo_names import function_name, is_resumed

_EVAL_FRAME = "eval_frame.py"


def current_compile_id() -> str | None:
    """Return torch's compile id (`0/0`) of the frame being compiled, None outside a compile."""
    compile_id = CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


class UserStack(NamedTuple):
    """The user's frames, outermost first."""

    callers: tuple[Location, ...]
    """The frames that lead to the compiled function."""
    inside: tuple[Location, ...]
    """The compiled function and its callees."""

    @property
    def whole(self) -> tuple[Location, ...]:
        return self.callers + self.inside


def user_stack(user_files: UserFiles, traced: Iterable[Any] | None) -> UserStack:
    """Return the Python frames above Dynamo, then the frames that it traces (`exc.real_stack`).

    The resume function after a graph break and the function that it continues are shown as one frame.
    """
    callers, running = _python_frames(user_files)
    traced_frames = [StackFrame(f.filename, f.lineno, f.name) for f in traced or ()]
    inside = _merge_resumed([*running, *user_files.shown(traced_frames, libraries=not running)])
    return UserStack(user_files.locations(callers), user_files.locations(inside))


def _python_frames(user_files: UserFiles) -> tuple[list[StackFrame], list[StackFrame]]:
    """Return the user's frames outside and inside the outermost call into Dynamo, outermost first."""
    callers: list[StackFrame] = []
    running: list[StackFrame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_EVAL_FRAME):
            running, callers = [*callers, *running], []
        elif user_files.owns(code.co_filename):
            callers.insert(0, StackFrame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return callers, running


def traced_frames(stack: Iterable[Any] | None, user_files: UserFiles) -> tuple[Location, ...]:
    """Return the user's frames of a stack in the frame being compiled, those of libraries as `shows_libraries` says."""
    return user_files.frames(stack, libraries=shows_libraries(user_files))


def shows_libraries(user_files: UserFiles) -> bool:
    """Return whether the frame being compiled is in a library, unless code of the user calls it inside its region.

    A model of a library has no line of the user. What the user's model calls in a library is on the line that calls it.
    """
    graph = current_compile_id() or ""
    known = user_files.of_libraries.get(graph)
    if known is None:
        known = user_files.of_libraries[graph] = not _python_frames(user_files)[1]
    return known


def _merge_resumed(frames: list[StackFrame]) -> list[StackFrame]:
    merged: list[StackFrame] = []
    for frame in frames:
        last = merged[-1] if merged and is_resumed(frame.name) else None
        if last and (last.filename, function_name(last.name)) == (frame.filename, function_name(frame.name)):
            merged.pop()
        merged.append(frame)
    return merged


def record_caller(graph: str, user_files: UserFiles) -> None:
    """Record the user's innermost line outside the frame that Dynamo compiles now.

    A frame that is called from several lines counts for the first of them.
    """
    shows_libraries(user_files)
    outside = user_stack(user_files, ()).whole
    if outside:
        user_files.callers.setdefault(graph, outside[-1])


def user_frames(node: Any, user_files: UserFiles) -> tuple[Location, ...]:
    """Return the user's frames of an FX node, outermost first.

    If it has no frame of the user, return the line that called the function being compiled: torch's own modules have an
    empty stack trace in Dynamo's graph, and none later. What descends from no Dynamo node has no frames.
    """
    text = node.stack_trace
    frames = user_files.frames_of_text(text, libraries=shows_libraries(user_files))
    if frames or not (text or _FUNCTIONS & node.meta.keys()):
        return frames
    caller = user_files.callers.get(current_compile_id() or "")
    return (caller,) if caller else ()


_FUNCTIONS = {"source_fn_stack", "fwd_source_fn_stack"}
"""Metadata of a node that descends from one of Dynamo's: the functions that the program calls for it."""
