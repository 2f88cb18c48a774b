"""The FX graph pane in its other form: torch's own readable code of each graph."""

from __future__ import annotations

from functools import partial

from tcexplore.events import GraphCaptured
from tcexplore.session import Snapshot
from tcexplore.ui.document import Row, Span
from tcexplore.ui.documents.empty import nothing
from tcexplore.ui.documents.graph import TEACHES, heading, title
from tcexplore.ui.documents.highlight import Highlighted, highlighted
from tcexplore.ui.documents.parts import Part, Parts, fixed


def graph_code(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the pane."""
    if not snapshot.graphs:
        return Parts("", [nothing(snapshot, width, TEACHES)])
    parts: list[Part] = []
    for captured in snapshot.graphs:
        opened = f"graph {captured.graph}" not in toggled
        parts.append(fixed([heading(snapshot, captured, opened)]))
        parts += [_code(captured)] if opened else []
    return Parts(title(snapshot), parts)


def _code(captured: GraphCaptured) -> Part:
    text = highlighted(captured.code, "python")
    return Part(len(text.lines), partial(_row, text))


def _row(text: Highlighted, index: int) -> Row:
    return Row((Span(" "), *text.raw(index)), copy=text.lines[index])
