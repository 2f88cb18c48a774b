"""The expression of a source line at which the graph breaks."""

from __future__ import annotations

import re

from tcexplore import events as ev

_NAME = re.compile(r"[A-Za-z_]\w*")


def break_place(graph_break: ev.GraphBreak, line: str) -> tuple[int, int]:
    """Return the first and last character of the call or keyword that breaks the graph, else of the whole line.

    Torch gives a line and a context such as `method: item`; the last name of it that the line calls is the place.
    """
    names = [*_NAME.findall(graph_break.context), *_NAME.findall(graph_break.reason), *_NAME.findall(graph_break.kind)]
    for name in reversed(dict.fromkeys(names)):
        if call := re.search(rf"\.?\b{name}\s*\(", line):
            return call.start(), _closing(line, call.end())
    start = len(line) - len(line.lstrip())
    return start, max(start, len(line.rstrip()))


def _closing(line: str, start: int) -> int:
    """Return the place after the bracket that closes the one before `start`, or after the last one of the line."""
    depth = 1
    for at in range(start, len(line)):
        depth += (line[at] in "([{") - (line[at] in ")]}")
        if not depth:
            return at + 1
    return len(line.rstrip())


def broken_expression(graph_break: ev.GraphBreak) -> str:
    """Return the call or keyword that breaks the graph, such as `.item()`."""
    start, end = break_place(graph_break, graph_break.code)
    return graph_break.code[start:end]
