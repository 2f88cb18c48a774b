"""The user's frames of an FX node, including nodes in library functions that Dynamo compiles separately.

After a graph break inside a library, Dynamo compiles the library's functions as separate frames, and their nodes have
stacks within the library only. Such nodes belong to the user's line that was running when the frame was compiled.
"""

from __future__ import annotations

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_stack
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location


def record_caller(graph: str, user_files: UserFiles) -> None:
    """Record the user's innermost line outside the frame that Dynamo compiles now.

    A frame that is called from several lines counts for the first of them.
    """
    outside = user_stack(user_files, ()).whole
    if outside:
        user_files.callers.setdefault(graph, outside[-1])


def user_frames(stack_trace: str | None, user_files: UserFiles) -> tuple[Location, ...]:
    """Return the user's frames in an FX node's `stack_trace`, outermost first.

    If it has no frame of the user, return the line that called the function being compiled. A node without a
    stack trace has no frames.
    """
    frames = user_files.frames_of_text(stack_trace)
    if frames or not stack_trace:
        return frames
    caller = user_files.callers.get(current_compile_id() or "")
    return (caller,) if caller else ()
