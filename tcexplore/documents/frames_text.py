"""What was compiled, in words."""

from __future__ import annotations

from tcexplore.events import Location
from tcexplore.events.compile_ids import backward_number


def name_frame(compile_id: str, frame: Location | None) -> str:
    """The function's name, `backward 0 of compiled autograd` for what has no function, empty where torch names none."""
    if frame is not None:
        return frame.function or "frame"
    backward = backward_number(compile_id)
    return f"backward {backward} of compiled autograd" if backward else ""


def describe_frame(compile_id: str, frame: Location | None, where: str) -> str:
    """The same with its place: `train, line 19`."""
    return ", ".join(filter(None, (name_frame(compile_id, frame), where if frame else "")))
