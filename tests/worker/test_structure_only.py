"""A run for its structure only shows what a whole run shows, without a compiler and without a measurement."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.output_code import CompiledFxGraph

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.unloaded_code import UnloadedCode
from tcexplore.events import (
    AtenGraph,
    CallMade,
    Event,
    Finished,
    GraphBreak,
    GraphCaptured,
    GuardsInstalled,
    Kernel,
    KernelCompiled,
    Output,
    Recompiled,
    TimingEstimate,
    TimingSkipped,
)
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

PROGRAM = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)
    def forward(self, x):
        y = torch.relu(self.norm(x))
        print("max", tuple(y.shape))
        torch._dynamo.graph_break()
        return self.linear(y).sum() + torch.rand(())
model = Net()
inputs = (torch.randn(4, 8),)
"""

SIZES = ("x.0=4,6",)


def structure(events: list[Event]) -> list[object]:
    """Return what a run shows of its structure."""
    facts: list[object] = []
    facts += [(graph.graph, graph.code) for graph in only(events, GraphCaptured)]
    facts += [(broken.kind, broken.location) for broken in only(events, GraphBreak)]
    facts += [(made.graph, [(guard.kind, guard.source) for guard in made.guards])
              for made in only(events, GuardsInstalled)]  # fmt: skip
    facts += [(graph.graph, graph.stage, graph.code) for graph in only(events, AtenGraph)]
    facts += [(kernel.graph, kernel.phase, kernel.name, kernel.source) for kernel in only(events, Kernel)]
    return facts + [(known.graph, known.reason) for known in only(events, Recompiled)]


async def test_the_structure_is_that_of_a_whole_run(runs: Runs) -> None:
    whole = await runs.run(PROGRAM, vary=SIZES, backend="inductor", train=True, examine=False)
    quick = await runs.run(PROGRAM, vary=SIZES, backend="inductor", train=True, structure_only=True)
    assert isinstance(quick[-1], Finished), quick[-1]
    assert structure(quick) == structure(whole)
    assert {kernel.phase for kernel in only(quick, Kernel)} == {"forward", "backward"}


async def test_nothing_is_compiled_or_measured(runs: Runs) -> None:
    events = await runs.run(PROGRAM.replace("(8, 8)", "(8, 5)"), vary=SIZES, backend="inductor", structure_only=True)
    assert only(events, TimingEstimate) == []
    assert [call.variant for call in only(events, CallMade)] == ["compiled", "compiled"]
    assert only(events, KernelCompiled) == []
    (skipped,) = only(events, TimingSkipped)
    assert "--quick" in skipped.reason
    assert "max (4, 8)" in "".join(output.text for output in only(events, Output))


async def test_parts_of_a_graph_that_inductor_splits_for_cuda_graphs_are_not_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inductor wraps them in each graph that it loads for a GPU with CUDA graphs."""
    torch.compiler.reset()
    wrapped: list[Any] = []
    hooks = Hooks(wrapped.append)
    monkeypatch.setattr(CompiledFxGraph, "post_compile", lambda graph, *_: wrapped.append(graph.recursively_apply_fns))
    UnloadedCode(hooks).install()
    try:
        with inductor_config.patch(graph_partition=True, fx_graph_cache=False):
            assert torch.equal(torch.compile(torch.neg)(torch.ones(3)), -torch.ones(3))
    finally:
        hooks.remove()
    (wrap,) = wrapped
    wrap([])
