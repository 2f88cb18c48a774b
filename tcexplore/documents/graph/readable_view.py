"""The FX graph pane in its other form: torch's own readable code of each graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import Part, Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.graph.graph_view import TEACHES, heading, title
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.events import FxNode, GraphCaptured
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link, node_link

_ASSIGNED = re.compile(r"\s*(\w+)(?:: \"[^\"]*\")? = ")


def readable_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the pane."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, TEACHES)])
    parts: list[Part] = []
    for captured in snapshot.graphs:
        opened = f"graph {captured.graph}" not in toggled
        parts.append(fixed([heading(snapshot, captured, opened)], f"graph {captured.graph}"))
        parts += [_code(captured)] if opened else []
    return Parts(title(snapshot), parts)


def _code(captured: GraphCaptured) -> Part:
    text = highlighted(captured.code, "python")
    nodes = {node.name: node for node in captured.nodes}
    return Part(len(text.lines), partial(_row, text, captured.graph, nodes))


def _row(text: Highlighted, graph: str, nodes: Mapping[str, FxNode], index: int) -> Row:
    """A statement stands for the node that it gives its value to: torch names both alike."""
    line = text.lines[index]
    assigned = _ASSIGNED.match(line)
    node = nodes.get(assigned[1]) if assigned else None
    own = (node_link(graph, node.name),) if node else ()
    place = node.location if node else None
    links = (*own, line_link(place)) if place else own
    return Row((Span(" "), *text.raw(index)), links, place, copy=line)
