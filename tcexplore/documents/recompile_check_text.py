"""The answer to "would it recompile?" in words."""

from __future__ import annotations

import re

from tcexplore.events import FrameAnswer

_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")

_VERDICTS = {
    "recompiles": "would recompile",
    "limit": "would run eagerly: the recompile limit is reached, and no entry matches",
    "raises": "would be an error: no entry matches, and compiling again is not allowed",
    "eager": "would run eagerly",
    "unknown": "not known",
}


def describe_verdict(frame: FrameAnswer) -> str:
    """`0/1 would be used again`, `would recompile`."""
    return f"{frame.graph} would be used again" if frame.verdict == "matches" else _VERDICTS[frame.verdict]


def describe_dynamic_sizes(frame: FrameAnswer) -> str:
    """What would be a symbol in the new graph, empty where nothing would be compiled."""
    if frame.verdict != "recompiles":
        return ""
    if not frame.dynamic:
        return "Every size in the new graph would be a number."
    names = ", ".join(_SIZE.sub(r".\1(\2)", name) for name in frame.dynamic)
    return f"It would be compiled as dynamic in {names}: further changes of it then need no new graph."


def describe_moved_state(frame: FrameAnswer) -> str:
    """That the program is not as the file's last call left it, where a number that it keeps itself decides."""
    kept = {
        e.failed.what for e in frame.entries if e.failed and e.failed.origin == "attribute" and e.failed.kind == "int"
    }
    if not kept:
        return ""
    return (
        f"The program is asked as it is now: {', '.join(sorted(kept))} went on counting in the calls that are made to "
        "time it."
    )


def format_inputs(inputs: tuple[str, ...]) -> str:
    """The inputs as one call."""
    return f"({', '.join(inputs)})"
