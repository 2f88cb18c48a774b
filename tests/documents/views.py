"""The documents that explain, beside those of the panes, with runs that they have something to say of."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tcexplore.session import Snapshot
from tcexplore.ui.documents.code.fusion import fusion
from tcexplore.ui.documents.diff.whole import diff
from tcexplore.ui.documents.graph.aot import aot
from tcexplore.ui.documents.graph.decomposition import decomposition
from tcexplore.ui.documents.graph.passes import passes
from tcexplore.ui.lines.document import Builder, Document
from tests import fakes
from tests.snapshots import gate

VIEWS: dict[str, Builder] = {"aot": aot, "decomposition": decomposition, "fusion": fusion, "passes": passes}


def edited() -> Snapshot:
    """The gate after an edit of its last line: another op, one kernel changed and one gone, a guard and a break new."""
    run, other = gate.run(4), fakes.complete()
    graph = run.graphs[0]
    nodes = tuple(replace(n, args="sigmoid, 2") if n.name == "add" else n for n in graph.nodes)
    changed = replace(run.kernels[0], name="cpp_fused_add_7", source=run.kernels[0].source.replace("tmp4;", "tmp5;"))
    return replace(
        run,
        source=run.source.replace("+ 1", "+ 2  # twice"),
        graphs=(replace(graph, nodes=nodes),),
        kernels=(changed, run.kernels[1]),
        guards=other.guards[:1],
        breaks=other.breaks,
    )


def compared(after: Snapshot | None = None) -> Builder:
    """The comparison of the gate with a later run of it."""

    def build(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Document:
        return diff(snapshot, after or edited(), toggled, width)

    return build


same = partial(replace, gate.run(), run=5, source=gate.SOURCE + "# a comment\n")
