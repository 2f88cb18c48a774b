"""A program whose state changes with each call: tcexplore's own calls compile again, and count separately."""

from __future__ import annotations

import pytest

from tcexplore.events import (
    Accuracy,
    CallMade,
    CallProfiled,
    ExtraCompiles,
    FactMissing,
    FrameEntered,
    GraphCaptured,
    PhaseTimed,
    Recompiled,
    TimingEstimate,
)
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
    (profile,) = [event for event in events if isinstance(event, CallProfiled)]
    ops = {part.name for part in profile.parts if part.kind == "eager op"}
    assert ops <= {"aten.sin", "aten.mul"}, "no ops of a compile"


async def test_the_first_compile_meets_the_state_that_the_import_left(runs: Runs) -> None:
    """A plain script compiles for 0 steps, and again for 1: nothing of the program runs before its compiled calls."""
    events = await runs.run(COUNTER + "print('imported')\n")
    assert [(event.variant, event.index) for event in events if isinstance(event, CallMade)] == [
        ("compiled", 0), ("compiled", 1), ("eager", 0), ("eager", 1),
    ]  # fmt: skip
    (recompile,) = [event for event in events if isinstance(event, Recompiled)]
    assert (recompile.old, recompile.new) == ("0", "1")
    (accuracy,) = [event for event in events if isinstance(event, Accuracy)]
    assert accuracy.verdict in ("identical", "as accurate as eager"), "both sides are compared from the same state"


async def test_state_that_cannot_be_set_back_is_named(runs: Runs) -> None:
    source = """\
import itertools, torch
steps = itertools.count()
def model(x):
    torch._dynamo.graph_break()
    return x + next(steps)
inputs = (torch.ones(4),)
"""
    events = await runs.run(source)
    missing = {event.fact: event.symbol for event in events if isinstance(event, FactMissing)}
    assert missing["eager calls from the state of the compiled ones"].endswith("steps")
    (accuracy,) = [event for event in events if isinstance(event, Accuracy)]
    assert accuracy.verdict == "not judged"
    assert "steps" in accuracy.reason


CACHE = """\
import torch
from torch import nn

class Layer:
    def __init__(self):
        self.keys = torch.zeros(16, 1 << 16)
        self.length = torch.tensor([0])

class Cache:
    def __init__(self):
        self.layers = [Layer()]

class Net(nn.Module):
    def forward(self, x, cache):
        layer = cache.layers[0]
        layer.keys.index_copy_(0, layer.length, x)
        layer.length.add_(1)
        return layer.keys.sum(0)

model = Net()
inputs = (torch.ones(1, 1 << 16), Cache())
"""


async def test_a_cache_among_the_arguments_has_room_for_every_call(runs: Runs) -> None:
    """Each call writes the next row of 16; timing makes hundreds."""
    events = await runs.run(CACHE, backend="aot_eager", time_for=0.2)
    assert not [event for event in events if isinstance(event, FactMissing) and "eager calls" in event.fact]
    (accuracy,) = [event for event in events if isinstance(event, Accuracy)]
    assert accuracy.verdict == "identical"
    estimates = [event for event in events if isinstance(event, TimingEstimate)]
    assert estimates
    assert estimates[-1].pairs > 4


REMEMBERED = """\
import torch
from torch import nn

KNOWN = {}  # as the backends of einops: the first call adds to it

class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        if x.dtype not in KNOWN:
            KNOWN[x.dtype] = len(KNOWN)
        return self.second(self.first(x).relu())

model = Remembers()
inputs = (torch.ones(64, 64),)
"""


@pytest.mark.parametrize("train", [False, True])
async def test_a_graph_that_is_compiled_again_with_the_same_code_has_its_lines(runs: Runs, train: bool) -> None:
    events = await runs.run(REMEMBERED, backend="inductor", time_for=0.1, train=train)
    *_, extra = [event for event in events if isinstance(event, ExtraCompiles)]
    assert extra.compiles == 1
    (profile,) = [event for event in events if isinstance(event, CallProfiled)]
    kinds = {part.kind: part for part in profile.parts if part.kind in ("kernel", "library")}
    assert kinds.keys() == {"kernel"}, "the second graph differs from the known one by its numbers only"
    assert kinds["kernel"].graph == "0/0"
