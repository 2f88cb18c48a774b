"""The answer to "would it recompile?" in words."""

from __future__ import annotations

import re

from tcexplore.events import FrameAsked

_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")

_VERDICTS = {
    "recompiles": "would recompile",
    "limit": "would run eagerly: the recompile limit is reached, and no entry matches",
    "raises": "would be an error: no entry matches, and compiling again is not allowed",
    "eager": "would run eagerly",
    "unknown": "not known",
}


def verdict(frame: FrameAsked) -> str:
    """`0/1 would be used again`, `would recompile`."""
    return f"{frame.graph} would be used again" if frame.verdict == "matches" else _VERDICTS[frame.verdict]


def dynamic(frame: FrameAsked) -> str:
    """What would be a symbol in the new graph, empty where nothing would be or nothing would be compiled."""
    if frame.verdict != "recompiles":
        return ""
    if not frame.dynamic:
        return "Every size in the new graph would be a number."
    return (
        f"It would be compiled as dynamic in {', '.join(frame.dynamic)}: further changes of it then need no new graph."
    )


def asked(inputs: tuple[str, ...]) -> str:
    """The inputs as one call."""
    return f"({', '.join(inputs)})"
