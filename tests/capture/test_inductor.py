"""Events below Dynamo: AOT and post-grad graphs, kernels and their calls, fusion, the wrapper, caches."""

from __future__ import annotations

import json
import logging
import os
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.utils.flop_counter import FlopCounterMode

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import inductor_trace
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.documents.code.fusion_view import explain_refusal
from tcexplore.events import (
    AtenGraph,
    CacheLookup,
    Event,
    FactMissing,
    FusionDecision,
    GraphCaptured,
    Kernel,
    Partitioned,
    ScheduleMade,
    Wrapper,
)
from tcexplore.events.inductor_events import CacheOutcome
from tests.capture.compiling import captured

pytestmark = pytest.mark.filterwarnings("ignore")


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 32)
        self.second = torch.nn.Linear(32, 32)
        self.last = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.first(x)) * 2.5
        x = torch.sigmoid(self.second(x)) * 2.5
        return self.last(x).softmax(-1)


class Embedded(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50_000, 64)

    def forward(self, *ids: torch.Tensor) -> list[torch.Tensor]:
        return [torch.nn.functional.layer_norm(self.table(each), (64,)) for each in ids]


def _bytes_read(lookups: int) -> int:
    events = captured(Embedded(), tuple(torch.arange(16) for _ in range(lookups)), __file__, train=False)
    return sum(event.bytes_read or 0 for event in events if isinstance(event, Kernel) and event.generated)


def test_a_kernel_that_looks_up_rows_of_a_table_reads_these_rows():
    one, two, table = 16 * 8 + 16 * 64 * 4, _bytes_read(2), 50_000 * 64 * 4
    assert _bytes_read(1) == one
    assert 2 * one <= two < table, "the second lookup reads other rows, in each of its loops"


@cache
def _events() -> list[Event]:
    return captured(Layers(), (torch.randn(16, 32),), __file__, train=True)


def _of(kind: type[Any]) -> list[Any]:
    return [event for event in _events() if isinstance(event, kind)]


def _line(text: str) -> int:
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


@pytest.mark.torch
def test_no_fact_is_missing_and_events_have_graph_and_phase() -> None:
    assert _of(FactMissing) == []
    assert {event.graph for event in _of(Kernel) + _of(Wrapper) + _of(AtenGraph) + _of(FusionDecision)} == {"0/0"}
    assert {event.phase for event in _of(Kernel)} == {event.phase for event in _of(Wrapper)} == {"forward", "backward"}


@pytest.mark.torch
def test_forward_and_backward_nodes_have_dynamo_origins_and_lines() -> None:
    stages = {(graph.stage, graph.phase): graph for graph in _of(AtenGraph)}
    assert set(stages) == {
        ("joint", "forward"), ("forward", "forward"), ("backward", "backward"),
        ("post_grad", "forward"), ("post_grad", "backward"),
    }  # fmt: skip
    backward = [node for node in stages["backward", "backward"].nodes if node.op == "call_function"]
    assert all(node.location is not None for node in backward)
    assert all(node.origins for node in backward)
    dynamo_names = {node.name for graph in _of(GraphCaptured) for node in graph.nodes}
    assert "x" in dynamo_names, "Dynamo names a value after the variable"
    for graph in stages.values():
        assert {origin for node in graph.nodes if node.op == "call_function" for origin in node.origins} <= dynamo_names
    first = {node.origins for node in backward if node.location.line == _line("self.first(x)) * 2.5")}
    second = {node.origins for node in backward if node.location.line == _line("self.second(x)) * 2.5")}
    assert first
    assert second
    assert first.isdisjoint(second)


@pytest.mark.torch
def test_origins_are_the_same_with_torchs_provenance_tracking() -> None:
    """torch then records the AOT node of a backward node under a name that Dynamo may use for another node."""
    with torch._inductor.config.patch({"trace.provenance_tracking_level": 1}):
        events = captured(Layers(), (torch.randn(16, 32),), __file__, train=True)
    origins = {(g.stage, g.phase, n.name): n.origins for g in events if isinstance(g, AtenGraph) for n in g.nodes}
    assert origins == {(g.stage, g.phase, n.name): n.origins for g in _of(AtenGraph) for n in g.nodes}


@pytest.mark.torch
def test_equal_code_is_one_kernel_with_origins_per_call() -> None:
    shared = [k for k in _of(Kernel) if k.phase == "forward" and len(k.calls) == 2]
    assert len(shared) == 1
    lines = [{place.line for place in call.source_lines} for call in shared[0].calls]
    assert lines == [{_line("self.first(x)) * 2.5")}, {_line("self.second(x)) * 2.5")}]
    for call in shared[0].calls:
        assert {place for line in call.lines for place in line.source} == set(call.source_lines)
    assert shared[0].bytes_written == sum(call.bytes_written for call in shared[0].calls)


@pytest.mark.torch
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_kernels_are_in_the_order_of_their_calls_in_the_wrapper(phase: str) -> None:
    kernels = [kernel for kernel in _of(Kernel) if kernel.phase == phase]
    wrapper = next(wrapper for wrapper in _of(Wrapper) if wrapper.phase == phase)
    assert os.path.isfile(wrapper.path)
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    assert sorted(call.order for k in kernels for call in k.calls) == list(range(sum(len(k.calls) for k in kernels)))
    assert [k.calls[0].order for k in kernels] == sorted(k.calls[0].order for k in kernels)
    for kernel in kernels:
        text = kernel.source.strip().splitlines()
        assert all(line.strip() in wrapper.source for line in text)
        assert kernel.name.partition(":")[0] in wrapper.source
        assert kernel.source_lines
        assert kernel.bytes_read
        assert (kernel.flops is not None) == (kernel.language == "extern")


@pytest.mark.torch
def test_operations_of_convolutions_are_counted_once() -> None:
    model, x = torch.nn.Conv2d(4, 8, 3), torch.randn(2, 4, 10, 10, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    kernels = [event for event in captured(model, (x,), __file__, train=True) if isinstance(event, Kernel)]
    extern = {kernel.phase: kernel.flops for kernel in kernels if kernel.flops is not None}
    assert sum(kernel.flops or 0 for kernel in kernels) == counter.get_total_flops()
    assert extern.keys() == {"forward", "backward"}


@pytest.mark.torch
def test_a_convolution_has_its_own_line_and_not_those_of_its_input() -> None:
    def layers(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        x = torch.conv2d(x, first, padding=1)
        x = torch.nn.functional.silu(x)
        return torch.conv2d(x, second, padding=1)

    inputs = (torch.randn(2, 16, 8, 8), torch.randn(24, 16, 3, 3), torch.randn(32, 24, 3, 3))
    events = captured(layers, inputs, __file__)
    kernels = [event for event in events if isinstance(event, Kernel) and event.language == "extern"]
    assert [kernel.ops for kernel in kernels] == [("aten.convolution",)] * 2
    lines = [[place.line for place in kernel.source_lines] for kernel in kernels]
    assert lines == [[_line("x, first")], [_line("x, second")]]


@pytest.mark.torch
def test_fused_nodes_share_a_kernel_and_refusals_have_a_reason() -> None:
    fused = [decision for decision in _of(FusionDecision) if decision.fused]
    assert fused
    for decision in fused:
        owners = [k for k in _of(Kernel) if k.phase == decision.phase and decision.a_nodes[0] in k.scheduler_nodes]
        assert [set(k.scheduler_nodes) >= {*decision.a_nodes, *decision.b_nodes} for k in owners] == [True]
        assert decision.kind
        assert decision.bytes_saved is not None
    assert all(decision.reason for decision in _of(FusionDecision) if not decision.fused)


@pytest.mark.torch
def test_an_unexplained_refusal_names_the_method_and_the_loops() -> None:
    events = captured(lambda x: (x.sum(-1), x.exp()), (torch.randn(16, 64),), __file__)
    refused = [event for event in events if isinstance(event, FusionDecision) and not event.fused]
    assert [event.refused_by for event in refused] == ["CppScheduling.can_fuse_horizontal"]
    assert "[16] reducing [64]" in refused[0].reason
    assert explain_refusal(refused[0].reason)


@pytest.mark.torch
def test_the_schedule_has_the_buffers_and_dependencies_of_each_node() -> None:
    for made in _of(ScheduleMade):
        nodes = {node.name: node for node in made.nodes}
        kernels = [k for k in _of(Kernel) if k.phase == made.phase]
        assert {name for k in kernels for name in k.scheduler_nodes} <= nodes.keys()
        assert all(set(node.dependencies) <= nodes.keys() for node in made.nodes)
        for name, node in nodes.items():
            assert all(set(node.buffers) & set(nodes[dependency].buffers) for dependency in node.dependencies), name
    assert {made.phase for made in _of(ScheduleMade)} == {"forward", "backward"}


@pytest.mark.torch
def test_saved_tensors_have_bytes_and_lines() -> None:
    partition = _of(Partitioned)[0]
    saved = [tensor for tensor in partition.saved if not tensor.input]
    assert saved
    assert all(tensor.bytes for tensor in saved)
    assert all(tensor.location for tensor in saved)
    assert any(tensor.input for tensor in partition.saved)


@pytest.mark.parametrize(("name", "cache", "outcome"), [
    ("fx_graph_cache_hit", "fx_graph", "hit"), ("aotautograd_cache_bypass", "aot_autograd", "bypass"),
])  # fmt: skip
def test_cache_lookups_come_from_the_trace(name: str, cache: str, outcome: CacheOutcome) -> None:
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace = StructuredTrace(hooks)
    inductor_trace.install(hooks, trace, UserFiles(__file__))
    record = logging.makeLogRecord({
        "metadata": {"artifact": {"name": name}, "frame_id": 1, "frame_compile_id": 0},
        "payload": json.dumps({"cache_bypass_reason": "unsupported"}),
    })  # fmt: skip
    trace.handle(record)
    hooks.remove()
    assert events == [CacheLookup(graph="1/0", cache=cache, outcome=outcome, reason="unsupported")]


class SharedWeight(torch.nn.Module):
    """Its weight has two gradients, whose sum a pass computes with one of the products."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).tanh())


@pytest.mark.torch
def test_a_sum_of_gradients_that_a_pass_fuses_has_the_origins_of_the_product() -> None:
    events = captured(SharedWeight(), (torch.randn(16, 32),), __file__, train=True)
    calls = [
        node
        for graph in events
        if isinstance(graph, AtenGraph) and (graph.stage, graph.phase) == ("post_grad", "backward")
        for node in graph.nodes
        if node.op == "call_function"
    ]
    fused = [node for node in calls if "addmm" in node.target]
    assert fused, [node.target for node in calls]
    assert all(node.origins for node in fused)
