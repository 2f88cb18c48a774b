"""All documents by the name of their pane."""

from __future__ import annotations

from tcexplore.ui.documents.breaks import breaks
from tcexplore.ui.documents.code.pane import code
from tcexplore.ui.documents.graph.pane import graph
from tcexplore.ui.documents.graph.readable import graph_code
from tcexplore.ui.documents.guards.pane import guards
from tcexplore.ui.documents.output import output
from tcexplore.ui.documents.source.pane import source
from tcexplore.ui.documents.timing.pane import timing
from tcexplore.ui.lines.document import Builder

BUILDERS: dict[str, Builder] = {
    "source": source,
    "graph": graph,
    "graph_code": graph_code,
    "breaks": breaks,
    "guards": guards,
    "code": code,
    "timing": timing,
    "output": output,
}
