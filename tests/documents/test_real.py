"""The views of a real training compile are complete and consistent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcexplore.documents.diff_view import diff_document
from tcexplore.documents.document import Document
from tcexplore.events import Config
from tcexplore.session import Snapshot
from tcexplore.session.code import node_phases
from tcexplore.session.fused_kernels import Fusions
from tcexplore.session.line_times import line_traffic
from tests.documents.views import VIEWS


def snapshot() -> Snapshot:
    from tcexplore.capture.inductor import pass_diffs
    from tests.capture import compiling, constants

    model, inputs = constants.make()
    modules = (*compiling.MODULES, pass_diffs)
    events = compiling.captured(model, inputs, constants.__file__, train=True, modules=modules)
    run = Snapshot(
        run=0, file=constants.__file__, source=Path(constants.__file__).read_text(), config=Config(train=True)
    )
    for event in events:
        run = run.apply(event)
    return run


def whole(view: str, run: Snapshot) -> Document:
    """Return the rows of a document with all folds open."""
    toggled = frozenset[str]()
    while True:
        document = VIEWS[view](run, toggled, 100)
        rows = (document.row(index) for index in range(len(document)))
        more = {row.fold for row in rows if row.fold and "▸" in row.text} - toggled
        if not more:
            return document
        toggled |= more


@pytest.mark.torch
def test_views_of_a_real_run():
    run = snapshot()
    texts = {}
    for view in VIEWS:
        document = whole(view, run)
        texts[view] = "\n".join(document.row(index).text for index in range(len(document)))
    generated = [kernel for kernel in run.code.kernels if kernel.language != "extern"]
    assert all(kernel.name in texts["fusion"] for kernel in generated)
    for kernel in generated:
        groups = Fusions(run).fused(kernel).groups
        assert sorted(name for group in groups for name in group) == sorted(kernel.scheduler_nodes)
    statements = {
        text.strip() for kernel in generated for text in kernel.source.splitlines() if "constexpr" not in text
    }
    shown = [line for line in texts["decomposition"].splitlines() if any(text in line for text in statements if text)]
    assert len(shown) > 50

    (cut,) = run.code.partitions
    assert cut.saved
    assert all(saved.name in texts["aot"] for saved in cut.saved)
    (joint,) = [graph for graph in run.code.aten_graphs if graph.stage == "joint"]
    phases = node_phases(run.code.aten_graphs, joint)
    assert {"forward", "backward"} <= set(phases.values())

    traffic = line_traffic(run.code.kernels)
    assert traffic.bytes > 0
    assert all(0 < line.share <= 1 for line in traffic.lines.values())
    assert all(run.source.splitlines()[line - 1].strip() for file, line in traffic.lines if file == run.file)
    assert "changed a graph" in VIEWS["passes"](run, frozenset(), 100).title
    assert "SAME PROGRAM" in diff_document(run, run, frozenset(), 100).row(0).text
