"""The user's lines of a node, also where a library's function is compiled on its own.

After a graph break inside a library Dynamo compiles the library's functions as frames of their own: what it traces
there has the library's lines alone. Those ops belong to the line of the user's that was running at the time.
"""

from __future__ import annotations

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.user_stack import user_stack
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location


def note_caller(graph: str, project: UserFiles) -> None:
    """Dynamo compiles a frame now: keep the user's innermost line outside of it. One that is called from several
    lines is compiled for the first of them."""
    outside = user_stack(project, ()).whole
    if outside:
        project.callers.setdefault(graph, outside[-1])


def person_frames(stack_trace: str | None, project: UserFiles) -> tuple[Location, ...]:
    """The user's frames in the text that FX keeps with a node, outermost first; else the line that called what is
    being compiled. A node without such a text has none."""
    frames = project.frames_of_text(stack_trace)
    if frames or not stack_trace:
        return frames
    caller = project.callers.get(current_compile_id() or "")
    return (caller,) if caller else ()
