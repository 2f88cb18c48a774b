"""The profile of one call with a real compiler."""

from __future__ import annotations

import pytest
import torch

from tcexplore.documents.line_facts import parts_by_line
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


BROKEN = """\
import torch
from torch import nn
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(16, width), nn.Linear(width, 16)
    def forward(self, x):
        y = torch.relu(self.up(x))
        print(end="")
        return x + self.down(y)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(64 if n == 2 else 32) for n in range(5))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum()
model, inputs = Net(), (torch.randn(8, 16),)
"""
"""Torch compiles the code of a layer for the first one, and again for the wide one and, by a symbol, for all others."""


async def test_layers_that_share_the_code_of_a_graph_have_a_share_of_its_time_each(runs: Runs) -> None:
    events = await runs.run(BROKEN, backend="inductor", time_for=0.2)
    (profile,) = only(events, CallProfiled)
    callers: dict[str, int] = {}
    for caller in profile.callers:
        callers[caller.path] = callers.get(caller.path, 0) + caller.calls
    assert callers == {f"layers.{number}": 2 for number in range(5)}, "before and after the break"
    tree = timed_tree(grow(1, events, BROKEN))
    members = [module for _, module in sorted(tree.root.children["layers"].children.items())]
    assert [len(module.breaks) for module in members] == [1] * 5
    assert len(tree.root.breaks) == 1
    assert {len(module.ops) for module in members} == {4}
    weights = [4 * (2 * 16 * width + width + 16) for width in (32, 32, 64, 32, 32)]
    assert [module.bytes for module in members] == weights
    assert tree.root.bytes == sum(weights)
    rows = {row.path: row for row in tree.rows if row.depth == 2}
    assert rows["layers.2"].differs
    assert rows["layers.1, 3 – 4"].same_as == "layers.0"
    account = sum(part.us + part.launch_us for part in profile.parts if part.kind == "kernel") / profile.total_us
    times = [module.compiled_us for module in members]
    assert all(times)
    assert sum(us for us in times if us is not None) == pytest.approx(account * (tree.root.compiled_us or 0.0), rel=0.2)
    wide = times.pop(2)
    assert len({round(us, 6) for us in times if us is not None}) == 1
    assert wide not in times


IN_A_FUNCTION = """\
import torch
from torch import nn
def pool(x):
    x = x.sort(-1).values.softmax(-1)
    print(end="")
    return x.cos()
class Head(nn.Module):
    def forward(self, x):
        return pool(x.sin())
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), Head()
    def forward(self, x):
        return self.second(self.first(x)) + 1
model, inputs = Net(), (torch.randn(8, 16),)
"""
"""A function with a break, which torch compiles by itself."""


async def test_a_function_that_is_compiled_by_itself_belongs_to_the_module_that_calls_it(runs: Runs) -> None:
    events = await runs.run(IN_A_FUNCTION, backend="inductor", time_for=0.2)
    tree = timed_tree(grow(1, events, IN_A_FUNCTION))
    targets = [op.node.target for op in tree.root.children["second"].ops]
    assert any("softmax" in target for target in targets)
    assert tree.root.children["second"].compiled_us
    own = {rest.name: rest.compiled_us for rest in tree.rest}.get("the model itself")
    assert (own or 0.0) < tree.root.children["second"].compiled_us


CUSTOM = """\
import torch
from torch import nn
@torch.library.custom_op("mine::product", mutates_args=())
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, y).relu()
@product.register_fake
def _(x, y):
    return x.new_empty(x.shape[0], y.shape[1])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
    def forward(self, x):
        x = self.first(x).sin()
        x = product(x, x)
        return product(x, x) + 1
model, inputs = Net(), (torch.randn(16, 16),)
"""


async def test_a_custom_op_in_python_has_its_time_and_line(runs: Runs) -> None:
    events = await runs.run(CUSTOM, backend="inductor", time_for=0.2)
    (profile,) = only(events, CallProfiled)
    kinds = {part.kind for part in profile.parts}
    assert "library" not in kinds, "the ops that the custom op calls are its own"
    assert sum("mine.product" in part.name for part in profile.parts if part.kind == "kernel") == 2


RECURRENT = """\
import torch
from torch import nn
torch.set_num_threads(1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
    def forward(self, x):
        y = self.norm(x).relu()
        y, _ = self.rnn(y)
        return y * 2 + x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(16, 4)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).sum()
model, inputs = Net(), (torch.randn(4, 8, 16),)
"""
"""Dynamo does not trace recurrent layers, and then runs what follows in the loop as plain Python."""


@pytest.mark.parametrize(("backend", "train"), [("inductor", False), ("aot_eager", True)])
async def test_ops_outside_the_graphs_are_of_the_line_and_module_that_call_them(
    runs: Runs, backend: str, train: bool
) -> None:
    events = await runs.run(RECURRENT, backend=backend, time_for=0.2, train=train)
    (profile,) = only(events, CallProfiled)
    assert sum(part.us for part in profile.parts) == pytest.approx(profile.total_us)
    ops = [part for part in profile.parts if part.kind == "eager op"]
    recurrent = [part for part in ops if part.name.startswith(("aten.gru", "aten.mkldnn_rnn_layer_backward"))]
    assert {part.module for part in recurrent} == {"blocks.0.rnn", "blocks.1.rnn"}
    assert {part.location.line for part in recurrent if part.location is not None} == {11}
    assert all(part.location for part in recurrent)
    assert "aten.gru" in {part.name for part in recurrent}
    assert any(part.module == "blocks.0.rnn" and part.phase == "backward" for part in ops) is train
    head = next(part for part in ops if part.name == "aten.linear")
    assert (head.module, head.location and head.location.line) == ("head", 20)
    scaled = {part.module for part in ops if part.name == "aten.mul" and part.phase == "forward"}
    rest_is_eager = torch.__version__ < "2.15"  # which compiles what follows the recurrent layer
    assert scaled == ({"blocks.0", "blocks.1"} if rest_is_eager else set())
    run = grow(1, events, RECURRENT)
    assert run.call_account is not None
    tree = timed_tree(run)
    blocks = tree.root.children["blocks"].children
    for name in "01":
        row = blocks[name].children["rnn"]
        own = sum(part.us for part in run.call_account.parts if part.module == f"blocks.{name}.rnn")
        assert row.compiled_us == pytest.approx(own), "its time is not left out"
    lines = [line.name for line in account_lines(run.call_account)]
    assert any(line.endswith("aten.gru ×2  model.py:11") for line in lines), lines
    added = {
        line and line.line
        for part, line, _, _ in parts_by_line(run)
        if (part.name, part.phase, part.location) == ("aten.add", "forward", None)
    }
    assert added - {None} == ({12} if rest_is_eager else set()), (
        "an operator calls no function; its line is one that has no other eager op"
    )


DROPOUTS = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        x = nn.functional.dropout(self.a(x).relu(), 0.2)
        return nn.functional.dropout(self.b(x), 0.5).sum()
model, inputs = Net(), (torch.randn(8, 16),)
"""


async def test_the_seeds_of_random_numbers_are_of_the_lines_that_draw_them(runs: Runs) -> None:
    events = await runs.run(DROPOUTS, backend="inductor", time_for=0.0)
    (seeds,) = [kernel for kernel in only(events, Kernel) if "prims.inductor_seeds" in kernel.ops]
    assert {location.line for location in seeds.source_lines} == {8, 9}


async def test_what_torch_detaches_around_a_graph_is_no_eager_op(runs: Runs) -> None:
    events = await runs.run(MLP, backend="aot_eager", time_for=0.2, train=True)
    (profile,) = only(events, CallProfiled)
    assert "aten.detach" not in {part.name for part in profile.parts if part.kind == "eager op"}
    assert sum(part.us for part in profile.parts) == pytest.approx(profile.total_us)
