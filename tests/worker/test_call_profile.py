"""The profile of one call with a real compiler."""

from __future__ import annotations

import pytest

from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.timing.timing_view import account_lines, summarize_account
from tcexplore.events import CallProfiled, Kernel
from tests.snapshots.runs import grow
from tests.supervisor.runs import MLP, Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]


async def test_the_parts_of_a_call_add_up_and_include_every_kernel(runs: Runs) -> None:
    events = await runs.run(MLP, backend="inductor", time_for=0.2)
    (profile,) = only(events, CallProfiled)
    assert sum(part.us for part in profile.parts) == pytest.approx(profile.total_us)
    assert {part.name for part in profile.parts if part.kind == "kernel"} == {
        kernel.name for kernel in only(events, Kernel)
    }
    assert all(part.device == "cpu" and not part.replayed for part in profile.parts)
    assert all(part.low_us <= part.us <= part.high_us for part in profile.parts)
    assert {"guards", "launch", "Python", "kernel"} <= {part.kind for part in profile.parts}
    assert profile.plain_us is not None
    assert (profile.device_busy_us, profile.replays, profile.region_entries) == (None, 0, 1)
    run = grow(1, events, MLP)
    assert run.timing is not None
    assert run.call_account is not None
    assert run.call_account.total_us == run.timing.compiled_us
    assert summarize_account(run.call_account).startswith("one compiled call: ")
    assert len(list(account_lines(run.call_account))) == len(profile.parts)


async def test_ops_of_another_backend_are_in_its_graphs(runs: Runs) -> None:
    events = await runs.run(MLP, backend="eager", time_for=0.2)
    (profile,) = only(events, CallProfiled)
    kinds = {part.kind for part in profile.parts}
    assert "library" in kinds
    assert not {"eager op", "kernel"} & kinds


REPEATED = """\
import torch
from torch import nn
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
    @torch.compiler.nested_compile_region
    def forward(self, x):
        y = self.norm(x)
        y = torch.relu(self.up(y))
        return x + self.down(y)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum()
model, inputs = Net(), (torch.randn(8, 16),)
"""


async def test_each_layer_that_calls_a_nested_compile_region_has_its_kernels_and_time(runs: Runs) -> None:
    events = await runs.run(REPEATED, backend="inductor", time_for=0.2)
    (profile,) = only(events, CallProfiled)
    assert "library" not in {part.kind for part in profile.parts}, "each product is that of a line"
    products = [part for part in profile.parts if "addmm" in part.name]
    assert sum(part.launches for part in products) == 2 * 4
    rows = [row for row in timed_tree(grow(1, events, REPEATED)).rows if row.depth == 2]
    assert [(row.path, row.repeats, row.same_as) for row in rows] == [
        ("layers.0", 1, ""),
        ("layers.1 – 3", 3, "layers.0"),
    ]
    first, others = rows
    assert first.kernels >= 3
    assert (others.kernels, others.ops) == (3 * first.kernels, 3 * first.ops)
    assert first.compiled_us
    assert others.compiled_us
