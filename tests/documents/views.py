"""The documents of the other views, with runs for them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tcexplore.documents.code.fusion_view import fusion_document
from tcexplore.documents.diff_view import diff_document
from tcexplore.documents.document import Builder, Document, Row
from tcexplore.documents.graph.aot_view import aot_document
from tcexplore.documents.graph.decomposition_view import decomposition_document
from tcexplore.documents.graph.passes_view import passes_document
from tcexplore.session import Snapshot
from tests import fakes
from tests.snapshots import training
from tests.snapshots.codes import with_code

VIEWS: dict[str, Builder] = {
    "aot": aot_document,
    "decomposition": decomposition_document,
    "fusion": fusion_document,
    "passes": passes_document,
}


def edited() -> Snapshot:
    """Return the training run after an edit: another op, a changed and a removed kernel, a new guard and break."""
    run, other = training.run(4), fakes.complete()
    graph = run.graphs[0]
    nodes = tuple(replace(n, args="sigmoid, 2") if n.name == "add" else n for n in graph.nodes)
    changed = replace(
        run.code.kernels[0], name="cpp_fused_add_7", source=run.code.kernels[0].source.replace("tmp4;", "tmp5;")
    )
    return replace(
        with_code(run, kernels=(changed, run.code.kernels[1])),
        source=run.source.replace("+ 1", "+ 2  # twice"),
        graphs=(replace(graph, nodes=nodes),),
        guards=other.guards[:1],
        breaks=other.breaks,
    )


def compared(after: Snapshot | None = None) -> Builder:
    """Return the builder of the diff of the training run and a later one."""

    def build(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Document:
        return diff_document(snapshot, after or edited(), toggled, width)

    return build


same = partial(replace, training.run(), run=5, source=training.SOURCE + "# a comment\n")


def rows(build: Builder, run: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> list[Row]:
    document = build(run, toggled, width)
    return [document.row(index) for index in range(len(document))]


def opened(build: Builder, run: Snapshot, width: int = 78) -> frozenset[str]:
    """Return the folds to toggle so that nothing is folded."""
    folds = frozenset[str]()
    while more := {row.fold for row in rows(build, run, folds, width) if row.fold and "▸" in row.text}:
        assert not more & folds
        folds |= more
    return folds
