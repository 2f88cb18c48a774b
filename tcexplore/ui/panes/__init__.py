"""One file per pane: what it is called, which part of a run it is about, and which document shows that."""

from __future__ import annotations

from tcexplore.ui.panes.breaks_pane import BREAKS
from tcexplore.ui.panes.code_pane import CODE
from tcexplore.ui.panes.graph_pane import GRAPH
from tcexplore.ui.panes.guards_pane import GUARDS
from tcexplore.ui.panes.output_pane import OUTPUT
from tcexplore.ui.panes.pane_spec import PaneSpec
from tcexplore.ui.panes.source_pane import SOURCE
from tcexplore.ui.panes.timing_pane import TIMING

PANES: tuple[PaneSpec, ...] = (SOURCE, GRAPH, BREAKS, GUARDS, CODE, TIMING, OUTPUT)
"""In the order of their numbers."""

__all__ = ["PANES", "PaneSpec"]
