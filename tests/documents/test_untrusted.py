"""Text of the user and of torch is shown unchanged: brackets are not markup, nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.events import Failed, Output
from tcexplore.session import Snapshot
from tests import fakes
from tests.documents.golden import text
from tests.documents.panes import BUILDERS
from tests.snapshots.codes import with_code

NASTY = "a[i] [/b] [@click=app.quit]x[/] f32[4, 8] \\[ [red]"


def nasty() -> Snapshot:
    run = fakes.complete()
    first = run.graphs[0]
    nodes = tuple(replace(node, args=NASTY) if node.name == "h_1" else node for node in first.nodes)
    kernel = replace(run.code.kernels[1], source=f"auto tmp0 = {NASTY};\n", lines=())
    return replace(
        with_code(run, kernels=(run.code.kernels[0], kernel)),
        source=f"x = 1  # {NASTY}\n",
        graphs=(replace(first, nodes=nodes, code=f"# {NASTY}\n"), *run.graphs[1:]),
        breaks=(replace(run.breaks[0], reason=NASTY, explanation=NASTY, hints=(NASTY,)),),
        guards=(replace(run.guards[0], guards=(replace(run.guards[0].guards[1], code=(NASTY,), summary=""),)),),
        timing_skipped=NASTY,
        timing=None,
        output=(Output(stream="stdout", text=NASTY + "\n"),),
        failure=Failed(stage="eager", blame="user", type="E", message=NASTY, traceback=NASTY),
    )


def test_every_pane_keeps_brackets():
    run = nasty()
    for pane, build in BUILDERS.items():
        assert NASTY in text(build(run, frozenset(), 200)), pane


def test_wrapping_loses_nothing():
    run = nasty()
    for pane in ("breaks", "timing", "output"):
        closed = BUILDERS[pane](run, frozenset(), 38)
        rows = (closed.row(index) for index in range(len(closed)))
        folds = frozenset(row.fold for row in rows if row.fold and "▸" in row.text)
        words = text(BUILDERS[pane](run, folds, 38)).split()
        assert all(word in words for word in NASTY.split()), pane
