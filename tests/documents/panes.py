"""All documents by the name of their pane."""

from __future__ import annotations

from tcexplore.ui.document import Builder
from tcexplore.ui.documents.breaks import breaks
from tcexplore.ui.documents.code import code
from tcexplore.ui.documents.graph import graph
from tcexplore.ui.documents.graph_code import graph_code
from tcexplore.ui.documents.guards import guards
from tcexplore.ui.documents.output import output
from tcexplore.ui.documents.source import source
from tcexplore.ui.documents.timing import timing

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
