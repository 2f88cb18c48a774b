"""A session with a graph break, and the events of a run that verifies its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Session

TEXT = "import torch\n\n\ndef model(x):\n    return x / x.max().item()\n\n\ninputs = (torch.ones(4),)\n"
KIND = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")


def broken(file: Path) -> Session:
    job = ev.Job(run=1, file=str(file), source=TEXT)
    at = ev.Location(str(file), 5, "model")
    graph_break = ev.GraphBreak(
        graph="0/0", registry_id="GB0124", kind=KIND, reason="no number", location=at, code="return x / …"
    )
    session = Session().begin(job)
    for event in (GRAPH, graph_break, ev.PhaseStarted(phase="timing", at=1.0)):
        session = session.apply(replace(event, run=1))
    return session


def verified(_: ev.Job) -> Sequence[ev.Event]:
    judged = ev.ChangeChecked(verdict="identical", calls=1, varied=3)
    timed = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)
    return (GRAPH, judged, timed, ev.Finished())


def still_there(job: ev.Job) -> Sequence[ev.Event]:
    at = ev.Location(job.file, 5, "model")
    return (GRAPH, ev.GraphBreak(graph="0/0", registry_id=None, kind=KIND, reason="no", location=at), ev.Finished())
