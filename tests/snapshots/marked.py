"""Kernel sources with the post-grad nodes of each statement in a comment, `//@` or `#@`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcexplore.events import KernelLine, Location

_MARK = re.compile(r"\s*(?://|#)@ (\S+)$")


def unmark(marked: str, places: Mapping[str, Location]) -> tuple[str, tuple[KernelLine, ...]]:
    """Return the source without the marks, and its lines with their nodes; `places` has each node's location."""
    source: list[str] = []
    lines: list[KernelLine] = []
    for n, text in enumerate(marked.splitlines(), 1):
        mark = _MARK.search(text)
        source.append(text[: mark.start()] if mark else text)
        if mark:
            nodes = tuple(mark.group(1).split(","))
            where = dict.fromkeys(places[name] for name in nodes if name in places)
            lines.append(KernelLine(n=n, nodes=nodes, source=tuple(where)))
    return "\n".join(source) + "\n", tuple(lines)
