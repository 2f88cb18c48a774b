"""The process for the next run compiles the first graph of the last one while it waits."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from tcexplore.events import FxNode, GradMode, GraphCaptured, Location
from tcexplore.events.commands import Rehearsal
from tcexplore.supervisor.run_process import LARGEST_REHEARSED, REHEARSED_S, RunProcess
from tests.supervisor.runs import Runs

CODE = """
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[2, 3][3, 1]cpu", L_self_parameters_w_: "f32[3][1]cpu"):
        l_x_ = L_x_
        mul: "f32[2, 3][3, 1]cpu" = l_x_ * L_self_parameters_w_
        return (torch.nn.functional.gelu(mul),)
"""


def tensor(name: str, *shape: int) -> FxNode:
    sizes = tuple(map(str, shape))
    return FxNode(
        name=name, op="placeholder", target=name, dtype="f32", shape=sizes, device="cpu",
        stride=(sizes[-1], "1")[-len(sizes) :],
    )  # fmt: skip


PATIENCE_S = 60
INPUTS = (tensor("L_x_", 2, 3), tensor("L_self_parameters_w_", 3))
GRAPH = GraphCaptured(run=1, graph="0/0", ops=2, nodes=INPUTS, code=CODE, frame=Location(file="m.py", line=1))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("code", "quick_s", "primed", "steps"),
    [
        (CODE, PATIENCE_S, True, ["run", "captured", "generated"]),
        (CODE, PATIENCE_S, False, ["run"]),
        (CODE, 0, True, ["run"]),
        (CODE.replace("nn.functional.gelu", "ops.mylib.gelu"), PATIENCE_S, True, []),
        ("class GraphModule(", PATIENCE_S, True, []),
    ],
    ids=["torch's ops", "not primed", "slow", "an op of the user's", "cut"],
)
def test_a_graph_is_run_and_compiled_unless_it_needs_the_model_file(
    code: str, quick_s: float, primed: bool, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcexplore.worker import rehearsal

    taken: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        taken.append("generated")
        raise RuntimeError

    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(rehearsal, "QUICK_S", quick_s)
    monkeypatch.setattr(rehearsal, "_refuse", refuse)
    waits = rehearsal.rehearse_steps(Rehearsal(code=code, inputs=INPUTS, grad=False), primed=primed)
    taken.extend("captured" if wait_s else "run" for wait_s in waits)
    assert taken == steps


@pytest.mark.parametrize(
    ("delay", "graph", "rehearsed"),
    [
        (0.0, GRAPH, True),
        (REHEARSED_S, GRAPH, False),
        (0.0, replace(GRAPH, nodes=(tensor("w", LARGEST_REHEARSED // 4),)), False),
        (0.0, replace(GRAPH, code=CODE * 1000), False),
    ],
    ids=["small", "slow", "large", "long"],
)
async def test_only_a_graph_that_costs_little_is_rehearsed(
    delay: float, graph: GraphCaptured, rehearsed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, process = asyncio.get_running_loop(), RunProcess(1)
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    process._note_rehearsal(GradMode(run=1, enabled=False, reason="inference", matters=False))
    monkeypatch.setattr(loop, "time", lambda: now + delay)
    process._note_rehearsal(graph)
    assert (process.rehearsal is not None) == rehearsed
    process.discard()
    process.close_worker_ends()


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_a_run_after_a_rehearsal_gives_the_same_graphs_and_starts_with_empty_counters(
    shared_runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_runs.supervisor._pool, "warm_up", True)
    source = """import torch
assert not torch._dynamo.utils.counters, dict(torch._dynamo.utils.counters)
def model(x):
    return (x * 2).sin()
inputs = (torch.ones(3),)
"""
    graphs = [[event for event in await shared_runs.run(source) if isinstance(event, GraphCaptured)] for _ in range(3)]
    assert shared_runs.supervisor.rehearsal is not None
    assert [replace(graph, run=0) for graph in graphs[2]] == [replace(graph, run=0) for graph in graphs[0]]
