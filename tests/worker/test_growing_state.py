"""A program whose state changes with each call: tcexplore's own calls compile again, and count separately."""

from __future__ import annotations

import pytest

from tcexplore.events import EagerOps, ExtraCompiles, FrameEntered, GraphCaptured, PhaseTimed, Recompiled
from tests.supervisor.runs import Runs

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

COUNTER = """\
import torch
from torch import nn

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x.sin() * self.steps

model = Counter()
inputs = [(torch.ones(4),), (torch.ones(4),)]
"""


async def test_compiles_of_tcexplores_own_calls_are_not_among_the_users(runs: Runs) -> None:
    events = await runs.run(COUNTER, time_for=0.1)
    users = {"0/0", "0/1"}
    for kind in (GraphCaptured, FrameEntered, PhaseTimed):
        assert {event.graph for event in events if isinstance(event, kind)} == users
    (recompile,) = [event for event in events if isinstance(event, Recompiled)]
    assert (recompile.name, recompile.kind, recompile.graph) == ("self.steps", "int", "0/1")
    *_, extra = [event for event in events if isinstance(event, ExtraCompiles)]
    assert extra.limit_hit
    assert extra.compiles > 3
    assert "steps" in extra.reason
    (ops,) = [event for event in events if isinstance(event, EagerOps)]
    assert {name for name, _, _ in ops.ops} <= {"aten.sin", "aten.mul"}, "no ops of a compile"
