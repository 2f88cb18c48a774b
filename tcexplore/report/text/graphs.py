"""Every graph, in a line or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.frames_text import described
from tcexplore.documents.paths import at
from tcexplore.quantities import count
from tcexplore.report.text.layout import indented, labelled
from tcexplore.session import Snapshot

CALLS = {"call_function", "call_method", "call_module"}


def graphs(snapshot: Snapshot) -> Iterable[RenderableType]:
    for graph in snapshot.graphs:
        yield indented(_title(graph, snapshot.file))
        yield labelled("ops", _ops(graph))


def _title(graph: ev.GraphCaptured, file: str) -> Text:
    title = Text.assemble((graph.graph, "bold"), f"  {count(graph.ops, 'op')}")
    if said := described(graph.graph, graph.frame, at(graph.frame, file)):
        title.append(f"  {said}")
    return title


def _ops(graph: ev.GraphCaptured) -> str:
    """The targets in their order, a repeated one with its number."""
    targets = Counter(node.target.rpartition(".")[2] or node.target for node in graph.nodes if node.op in CALLS)
    return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in targets.items()) or "none"
