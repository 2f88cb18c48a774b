"""All documents by the name of their pane."""

from __future__ import annotations

from tcexplore.documents.breaks_view import breaks
from tcexplore.documents.code.kernels_view import code
from tcexplore.documents.document import Builder
from tcexplore.documents.graph.graph_view import graph
from tcexplore.documents.graph.readable_view import graph_code
from tcexplore.documents.guards.guards_view import guards
from tcexplore.documents.output_view import output
from tcexplore.documents.source.source_view import source
from tcexplore.documents.timing.timing_view import timing

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
