"""Between which graphs a break lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcexplore.events import GraphBreak, GraphCaptured


class Between(NamedTuple):
    """The breaks to show around the graphs, by the graph's place in their order; `rest` found no graph."""

    before: dict[int, list[GraphBreak]]
    after: dict[int, list[GraphBreak]]
    rest: list[GraphBreak]


def between(graphs: Sequence[GraphCaptured], breaks: Sequence[GraphBreak]) -> Between:
    """Each break behind the graph that it ended; where there was nothing to compile yet, before the one it began."""
    found = Between({}, {}, [])
    for broken in breaks:
        ended, begun = _ended(graphs, broken), _begun(graphs, broken)
        if ended is not None:
            found.after.setdefault(ended, []).append(broken)
        elif begun is not None:
            found.before.setdefault(begun, []).append(broken)
        else:
            found.rest.append(broken)
    return found


def _ended(graphs: Sequence[GraphCaptured], broken: GraphBreak) -> int | None:
    """The graph of the same function that began last above the break's line; a function resumed behind a break is a
    frame that begins on the line of that break. Where the function is not known, the graph with the break's id."""
    above = [
        (line, -index) for index, line in _starts(graphs, broken) if broken.location and line < broken.location.line
    ]
    if above:
        return -max(above)[1]
    same = (index for index, graph in enumerate(graphs) if graph.graph == broken.graph)
    return None if broken.location and broken.location.function else next(same, None)


def _begun(graphs: Sequence[GraphCaptured], broken: GraphBreak) -> int | None:
    on = (index for index, line in _starts(graphs, broken) if broken.location and line == broken.location.line)
    return next(on, None)


def _starts(graphs: Sequence[GraphCaptured], broken: GraphBreak) -> list[tuple[int, int]]:
    """The graphs of the function that broke, by their place in the order, and the line that each frame began on."""
    at = broken.location
    frames = ((index, graph.frame) for index, graph in enumerate(graphs))
    return [(i, f.line) for i, f in frames if f and at and (f.file, f.function) == (at.file, at.function)]
