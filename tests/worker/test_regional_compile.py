"""Regional compilation, guard filters and settings in a run."""

from __future__ import annotations

import pytest
from torch import nn

from tcexplore.events import (
    Accuracy,
    Failed,
    Finished,
    FrameEntered,
    GraphBreak,
    GraphCaptured,
    GuardsInstalled,
    Recompiled,
    RepeatedBlocks,
)
from tcexplore.worker.regional_compile import repeated_blocks
from tests.supervisor.runs import Runs, only

pytestmark = pytest.mark.torch

STACK = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        return x + torch.relu(self.linear(x))

class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * 2

model, inputs = Stack(), (torch.ones(2, 4),)
"""

BREAK_INSIDE = """\
import torch

def inner(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

def model(x):
    return inner(x) - 1

inputs = (torch.ones(2),)
"""


class Block(nn.Module):
    def __init__(self, inside: nn.Module | None = None) -> None:
        super().__init__()
        self.inside = inside or nn.Linear(2, 2)


def block_names(model: nn.Module) -> dict[str, int]:
    return {kind.__name__: len(instances) for kind, instances in repeated_blocks(model).items()}


def test_blocks_are_the_outermost_modules_that_a_container_repeats():
    nested = nn.ModuleList(Block(nn.Sequential(Block(), Block())) for _ in range(3))
    assert block_names(nested) == {"Block": 3}
    stages = nn.Sequential(nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block()))
    assert block_names(stages) == {"Block": 4}
    assert block_names(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 2, enable_nested_tensor=False)) == {
        "TransformerEncoderLayer": 2
    }


def test_torchs_own_layers_and_single_blocks_are_no_blocks():
    assert block_names(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU())) == {}
    assert block_names(nn.Sequential(Block(), nn.ReLU())) == {}
    shared = Block()
    assert block_names(nn.ModuleList([shared, shared])) == {}


@pytest.mark.asyncio(loop_scope="session")
class TestRuns:
    async def test_blocks_are_compiled_by_themselves_and_only_once(self, runs: Runs) -> None:
        events = await runs.run(STACK, regions="blocks")
        assert isinstance(events[-1], Finished), events[-1]
        assert only(events, RepeatedBlocks)[0].kinds == (("Block", 3),)
        (graph,) = only(events, GraphCaptured)
        assert graph.ops < 4, "the graph is that of a block"
        assert not only(events, Recompiled)
        assert only(events, Accuracy)[0].verdict == "identical"
        assert len(only(events, FrameEntered)) == 1, "eager calls do not compile, and all blocks share one graph"

    async def test_nested_regions_are_compiled_as_one_program(self, runs: Runs) -> None:
        events = await runs.run(STACK, regions="nested")
        assert isinstance(events[-1], Finished), events[-1]
        (graph,) = only(events, GraphCaptured)
        assert graph.code.count("invoke_subgraph(") == 3
        assert only(events, Accuracy)[0].verdict == "identical"

    async def test_a_model_without_blocks_cannot_be_compiled_by_blocks(self, runs: Runs) -> None:
        failed = await runs.failure(BREAK_INSIDE, regions="blocks")
        assert (failed.blame, failed.stage) == ("user", "arguments")
        assert "no repeated blocks" in failed.message

    async def test_a_guard_filter_drops_guards_and_keeps_the_mode(self, runs: Runs) -> None:
        kept = {}
        for name in ("", "skip_guard_on_all_nn_modules_unsafe"):
            events = await runs.run(STACK, guard_filter=name)
            assert isinstance(events[-1], Finished), events[-1]
            kept[name] = len(only(events, GuardsInstalled)[-1].guards)
        assert kept["skip_guard_on_all_nn_modules_unsafe"] < kept[""]
        assert isinstance((await runs.run(STACK, guard_filter="skip_guard_eval_unsafe"))[-1], Finished)
        assert isinstance((await runs.run(STACK, guard_filter="no_such_filter"))[-1], Failed)

    async def test_a_setting_of_torch_changes_the_graphs(self, runs: Runs) -> None:
        frames = {}
        for nested in (False, True):
            setting = f"torch._dynamo.config.nested_graph_breaks={nested}"
            events = await runs.run(BREAK_INSIDE, settings=(setting,))
            assert isinstance(events[-1], Finished), events[-1]
            assert only(events, GraphBreak)
            frames[nested] = [graph.ops for graph in only(events, GraphCaptured)]
        assert frames[False] != frames[True]
        failed = await runs.failure(BREAK_INSIDE, settings=("torch._dynamo.config.no_such_setting=1",))
        assert "no_such_setting" in failed.message

    async def test_a_specification_of_shapes_compiles_once_for_all_sizes(self, runs: Runs) -> None:
        source = "import torch\ndef model(x):\n    return x * 2\n\ninputs = [(torch.ones(n, 4),) for n in (3, 5, 7)]\n"
        events = await runs.run(source, compile_arguments=("dynamic_shapes={'x': ['batch', None]}",))
        if isinstance(events[-1], Failed):
            assert "no argument 'dynamic_shapes'" in events[-1].message, "before torch 2.13"
            return
        assert not only(events, Recompiled)
        assert len(only(events, GraphCaptured)) == 1
        assert only(events, Accuracy)[0].verdict == "identical"
        failed = await runs.failure(source, compile_arguments=("shapes_spec={'*x': 3}",))
        assert failed.blame == "user"

    async def test_further_arguments_of_torch_compile_reach_every_kind_of_file(self, runs: Runs) -> None:
        recompiling = "def model(x):\n    return x + 1\n\ninputs = [(torch.ones(n),) for n in range(3, 8)]\n"
        script = "f = torch.compile(lambda x: x + 1, backend='eager')\nfor n in range(3, 8):\n    f(torch.ones(n))\n"
        for source in (recompiling, script):
            events = await runs.run(
                "import torch\n" + source,
                dynamic=False,
                compile_arguments=("recompile_limit=2",),
                override=("dynamic",),
            )
            if isinstance(events[-1], Failed):
                assert "no argument 'recompile_limit'" in events[-1].message, "before torch 2.13"
                continue
            assert [recompile.limit_hit for recompile in only(events, Recompiled)].count(False) == 1
            assert any(frame.limit_hit for frame in only(events, FrameEntered))
