"""The expression of a source line at which the graph breaks."""

from __future__ import annotations

import re

from tcexplore.events import GraphBreak

_NAME = re.compile(r"[A-Za-z_]\w*")


def break_place(graph_break: GraphBreak, line: str) -> tuple[int, int]:
    """Return the first and last character of the call or keyword that breaks the graph, else of the whole line.

    Torch gives a line and a context such as `method: item`; the last name of it that the line calls is the place.
    """
    names = [*_NAME.findall(graph_break.context), *_NAME.findall(graph_break.reason), *_NAME.findall(graph_break.kind)]
    for name in reversed(dict.fromkeys(names)):
        if call := re.search(rf"\.?\b{name}\s*\([^()]*\)?", line):
            return call.span()
    start = len(line) - len(line.lstrip())
    return start, max(start, len(line.rstrip()))
