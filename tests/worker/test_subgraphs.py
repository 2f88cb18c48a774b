"""Graphs with subgraphs, and eager calls that torch compiles itself."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tcexplore.events import AtenGraph, CallMade, Event, Finished, GraphCaptured, GuardsInstalled, PhaseTimed
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

COND_AND_LOOP = """\
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
    def forward(self, x):
        y = torch.cond(
            x.sum() > 0,
            lambda x: self.a(x).relu(),
            lambda x: self.b(x).sin(),
            (x,),
        )
        steps = torch.zeros((), dtype=torch.int64)
        _, y = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5), (steps, y))
        return y.exp()
model, inputs = Net(), (torch.ones(4, 8),)
"""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def events(shared_runs: Runs) -> list[Event]:
    events = await shared_runs.run(COND_AND_LOOP, backend="aot_eager")
    assert isinstance(events[-1], Finished), events[-1]
    return events


async def test_compiles_of_the_eager_call_are_not_graphs(events: list[Event]) -> None:
    (captured,) = only(events, GraphCaptured)
    graph = captured.graph
    assert graph == "0/0"
    assert [guards.graph for guards in only(events, GuardsInstalled)] == [graph]
    assert {span.graph for span in only(events, PhaseTimed)} == {graph}
    calls = [(call.variant, call.compiles, call.graphs) for call in only(events, CallMade)]
    assert calls == [("compiled", 1, (graph,)), ("eager", 0, ())]


async def test_branches_and_loop_bodies_are_subgraphs_of_their_node(events: list[Event]) -> None:
    (graph,) = only(events, GraphCaptured)
    by_name = {subgraph.name: subgraph for subgraph in graph.subgraphs}
    callers = {name: next(node for node in graph.nodes if node.name == by_name[name].node).target for name in by_name}
    assert sorted(target.rpartition(".")[2] for target in callers.values()) == ["cond"] * 2 + ["while_loop"] * 2
    (relu,) = [node for subgraph in graph.subgraphs for node in subgraph.nodes if node.target.endswith("relu")]
    assert relu.location is not None
    assert relu.location.line == 12
    assert relu.name.startswith("cond_true_0.")
    assert set(relu.inputs) <= {node.name for node in by_name["cond_true_0"].nodes}
    assert len({node.name for node in graph.all_nodes}) == len(graph.all_nodes)


async def test_subgraphs_of_aten_graphs_lead_to_the_nodes_of_dynamo(events: list[Event]) -> None:
    (graph,) = only(events, GraphCaptured)
    (aten,) = only(events, AtenGraph)
    assert len(aten.subgraphs) == 4
    (sin,) = [node for node in aten.all_nodes if node.target == "aten.sin.default"]
    assert sin.origins == tuple(node.name for node in graph.all_nodes if node.target == "sin")
    assert sin.location is not None
    assert sin.location.line == 13


CHECKPOINTED = """\
import torch
from torch.utils.checkpoint import checkpoint
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.head = torch.nn.Linear(8, 8)
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(lambda x, block=block: block(x).tanh(), x, use_reentrant=False)
        return self.head(x)
model, inputs = Net(), (torch.ones(4, 8),)
"""
"""Each block is a subgraph, and the nodes of its product have the same first name as that of the head."""


async def test_the_backward_of_a_checkpoint_descends_from_its_own_nodes(shared_runs: Runs) -> None:
    events = await shared_runs.run(CHECKPOINTED, backend="aot_eager", train=True)
    (graph,) = only(events, GraphCaptured)
    modules = {node.name: node.module for node in graph.all_nodes}
    backward = next(aten for aten in only(events, AtenGraph) if aten.phase == "backward" and aten.stage == "backward")
    products = [node for node in backward.nodes if node.target.startswith("aten.mm")]
    assert {node.module for node in products} == {"self.blocks.0", "self.blocks.1", "self.head"}
    for node in products:
        assert {modules[origin] for origin in node.origins} == {node.module}
