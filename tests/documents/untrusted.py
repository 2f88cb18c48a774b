"""A run whose texts have markup, which must be shown as it is."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.events import Failed, Output
from tcexplore.session import Snapshot
from tests import fakes
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
