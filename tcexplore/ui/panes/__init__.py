"""One file per pane: what it is called, which part of a run it is about, and which document shows that."""

from __future__ import annotations

from tcexplore.ui.panes.breaks import BREAKS
from tcexplore.ui.panes.code import CODE
from tcexplore.ui.panes.graph import GRAPH
from tcexplore.ui.panes.guards import GUARDS
from tcexplore.ui.panes.output import OUTPUT
from tcexplore.ui.panes.source import SOURCE
from tcexplore.ui.panes.spec import PaneSpec
from tcexplore.ui.panes.timing import TIMING

PANES: tuple[PaneSpec, ...] = (SOURCE, GRAPH, BREAKS, GUARDS, CODE, TIMING, OUTPUT)
"""In the order of their numbers."""

__all__ = ["PANES", "PaneSpec"]
