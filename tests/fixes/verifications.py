"""Verifications of a fix, from prepared runs."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.fixes.proposals import proposals
from tcexplore.fixes.verification import Verification
from tcexplore.session import Snapshot

FILE = "/home/me/model.py"
TEXT = "import torch\ndef f(x):\n    y = x.sin()\n    print(y)\n    return y / y.max().item()\n"
KIND = "Failed to trace builtin operator"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


def broken(line: int, kind: str = KIND) -> ev.GraphBreak:
    return ev.GraphBreak(graph="0/0", registry_id=None, kind=kind, reason="why", location=ev.Location(FILE, line, "f"))


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=FILE, source=TEXT, config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")
BEFORE = run(GRAPH, broken(4), broken(5, ITEM), ev.Finished())
SAME = ev.ChangeChecked(verdict="identical", calls=1, varied=3)
GUARDED = proposals(FILE, TEXT, 4, KIND)[1]


def verification(*events: ev.Event, over: bool = True) -> Verification:
    done = (ev.Finished(),) if over else ()
    return Verification(GUARDED, BEFORE.breaks[0], BEFORE, run(GRAPH, *events, *done))
