"""Events on the compiled regions of a script."""

from __future__ import annotations

import pytest
import torch

from tcexplore.documents.locations import describe_frame
from tcexplore.events import (
    BackwardCaptured,
    Failed,
    Finished,
    FrameSkipped,
    GraphCaptured,
    Location,
    PhaseTimed,
    RegionCalls,
    RegionCompiled,
    RegionCreated,
    RegionGraph,
    ScriptEnded,
)
from tcexplore.events.base import frame_number
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

SCRIPT = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
    def forward(self, x):
        h = self.fc(x)
        print("broken")
        return h.relu()

def compiled(given):
    return torch.compile(given, backend="aot_eager")

@torch.compile(backend="eager")
def inner(x):
    return x.sin()

@torch.compile(backend="eager")
def outer(x):
    y = inner(x) + 1
    print("broken")
    return inner(y)

net = Net()
model = compiled(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
step = compiled(optimizer.step)
for size in (3, 3, 5, 5, 5):
    model(torch.randn(size, 4)).mean().backward()
    step()
    optimizer.zero_grad()
outer(torch.ones(2))
inner(torch.ones(2))
never = compiled(torch.cos)
with torch.compiler.set_stance("force_eager"):
    inner(torch.ones(2))
"""


async def test_graphs_calls_and_breaks_belong_to_their_region(runs: Runs) -> None:
    events = await runs.run(SCRIPT)
    assert isinstance(events[-1], Finished), events[-1]
    created = only(events, RegionCreated)
    assert [(region.name, region.kind) for region in created] == [
        ("inner", "function"), ("outer", "function"), ("Net", "module"), ("SGD.step", "optimizer"), ("cos", "function"),
    ]  # fmt: skip
    assert [region.location.line for region in created if isinstance(region.location, Location)] == [15, 19, 13, 13, 13]
    calls = {created[event.region].name: event for event in only(events, RegionCalls)}
    assert {name: event.calls for name, event in calls.items()} == {"inner": 2, "outer": 1, "Net": 5, "SGD.step": 5}
    net, inner = calls["Net"], calls["inner"]
    assert (net.entered, net.resumed, net.uncompiled) == (10, 5, 0)
    assert (inner.uncompiled, inner.raised) == (1, 0)
    assert 0 < (net.low_us or 0) <= (net.median_us or 0) <= (net.high_us or 0)
    compiles = [compile_ for compile_ in only(events, RegionCompiled) if created[compile_.region].name == "Net"]
    assert [compile_.call for compile_ in compiles] == [1, 3]
    assert all(len(compile_.graphs) == 2 and compile_.seconds > 0 for compile_ in compiles)
    graphs = {event.graph for event in only(events, RegionGraph) if created[event.region].name == "Net"}
    assert graphs == {graph for compile_ in compiles for graph in compile_.graphs}
    assert only(events, ScriptEnded)[0].time_limit is None
    spans = [span for span in only(events, PhaseTimed) if span.name == "entire_frame_compile"]
    assert all(0 < (span.at or 0) < only(events, ScriptEnded)[0].seconds + 1 for span in spans)


BACKWARD = """\
import torch

net = torch.nn.Linear(4, 1)
torch._dynamo.config.compiled_autograd = True

@torch.compile(backend="aot_eager")
def train(x):
    net(x).sum().backward()

for size in (3, 3, 5):
    train(torch.ones(size, 4))
    net.zero_grad()

model = torch.compile(net, backend="eager")
with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
    model(torch.ones(2, 4)).sum().backward()
"""


async def test_compiled_autograd_is_a_separate_region(runs: Runs) -> None:
    events = await runs.run(BACKWARD)
    assert isinstance(events[-1], Finished), events[-1]
    created = only(events, RegionCreated)
    names = [(region.name, region.kind, region.location and region.location.line) for region in created]
    assert [name for name in names if name[1] != "compiled autograd"] == [
        ("train", "function", 6), ("Linear", "module", 14),
    ]  # fmt: skip
    backward = [region for region in created if region.kind == "compiled autograd"]
    assert [region.name for region in backward] == [f"backward {n}" for n in range(len(backward))]
    assert {region.location and region.location.line for region in backward} == {8, 16}
    for number, region in enumerate(backward):
        (compiled,) = [compile_ for compile_ in only(events, RegionCompiled) if compile_.region == region.region]
        assert all(graph.startswith(f"!{number}/") for graph in compiled.graphs)
        (graph,) = [event for event in only(events, GraphCaptured) if event.graph == compiled.graphs[0]]
        assert graph.frame is None
        assert describe_frame(graph.graph, graph.frame, "") == f"backward {number} of compiled autograd"
        assert frame_number(graph.graph) == graph.graph.split("/")[1]
    assert {event.region: event.calls for event in only(events, RegionCalls)}[backward[0].region] == 2
    captured = only(events, BackwardCaptured)
    assert [event.backward for event in captured] == [str(n) for n in range(len(backward))]
    assert all(event.reason.startswith("Cache miss due to") for event in captured)


async def test_a_script_ends_at_its_time_limit(runs: Runs) -> None:
    source = """\
import time, torch
f = torch.compile(lambda x: x + 1, backend="eager")
while True:
    try:
        f(torch.ones(1))
        time.sleep(0.01)
    except Exception:
        pass
"""
    events = await runs.run(source, follow=1.0)
    assert isinstance(events[-1], Finished), events[-1]
    assert not only(events, Failed)
    followed = only(events, ScriptEnded)[0]
    assert followed.time_limit == 1.0
    assert 1.0 <= followed.seconds < 10
    assert only(events, RegionCalls)[-1].calls > 1


ARGUMENTS = """\
import inspect
import torch

def keep(guards):
    return [True for _ in guards]

@torch.compile(backend="eager", dynamic=False, options={"guard_filter_fn": keep})
def filtered(x):
    return x + 1

new = "recompile_limit" in inspect.signature(torch.compile).parameters
more = {"recompile_limit": 2, "isolate_recompiles": True, "name": "mine"} if new else {}
limited = torch.compile(lambda x: x * 2, backend="eager", dynamic=False, **more)
for size in range(3, 8):
    filtered(torch.ones(size))
    limited(torch.ones(size))
"""


async def test_arguments_of_the_scripts_own_calls_are_honored_and_shown(runs: Runs) -> None:
    events = await runs.run(ARGUMENTS)
    assert isinstance(events[-1], Finished), events[-1]
    filtered, limited = only(events, RegionCreated)
    assert filtered.arguments == ("dynamic=False", "backend='eager'", "options={'guard_filter_fn': keep}")
    compiles = [event.region for event in only(events, RegionCompiled)]
    assert compiles.count(filtered.region) == 5
    if len(limited.arguments) > 2:
        assert {"recompile_limit=2", "isolate_recompiles=True", "name='mine'"} < set(limited.arguments)
        assert compiles.count(limited.region) == 2


IN_PLACE = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x.sin()
plain, own = torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.nn.Sequential(Net())
plain.compile(backend="eager")
own.compile(backend="eager")
whole = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), backend="eager")
never = torch.nn.Linear(4, 4)
never.compile(backend="eager")
eager = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), backend="eager")
for model in (plain, own, whole):
    model(torch.ones(2, 4))
with torch.compiler.set_stance("force_eager"):
    eager(torch.ones(2, 4))
"""


async def test_a_region_in_which_dynamo_starts_nowhere_is_not_compiled(runs: Runs) -> None:
    """Dynamo starts in no frame of torch.nn, and `module.compile()` adds none of its own before torch 2.14."""
    events = await runs.run(IN_PLACE)
    assert isinstance(events[-1], Finished), events[-1]
    skipped = [event for event in only(events, FrameSkipped) if "torch.nn" in event.reason]
    assert len(only(events, GraphCaptured)) + len(skipped) == 3
    assert len(skipped) == (torch.__version__ < "2.14")
    for event in skipped:
        assert (event.frame.line, event.frame.function) == (6, "Sequential")
        assert "`module.compile()` of a torch.nn.Sequential" in event.reason


MADE_AGAIN = """\
import torch
def scaled(factor):
    return torch.compile(lambda x: x * factor, backend="eager")
kept = [scaled(torch.tensor(float(number))) for number in range(3)]
x = torch.ones(4)
for step in range(120):
    for number, function in enumerate(kept):
        assert function(x)[0] == number
    factor = torch.tensor(float(step))
    assert torch.compile(lambda x: x - factor, backend="eager")(x)[0] == 1 - step
"""


async def test_a_function_that_is_compiled_anew_in_each_step_is_one_region(runs: Runs) -> None:
    """Its closures differ, also in steps that run eagerly; those of earlier steps are not kept."""
    events = await runs.run(MADE_AGAIN, time_for=0.1, no_captured_calls=True)
    assert isinstance(events[-1], Finished), events[-1]
    assert [region.location.line for region in only(events, RegionCreated) if region.location] == [3, 10]
    calls = {event.region: event for event in only(events, RegionCalls)}
    assert {region: event.made for region, event in calls.items()} == {0: 3, 1: 120}
    assert calls[0].calls + calls[0].eager == 360
    assert sum(each.eager for each in calls.values()) > 0
