"""Captured calls of real scripts, examined after their end."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tcexplore.documents.module_folds import timed_tree
from tcexplore.events import (
    Accuracy,
    CallExamined,
    EntryFound,
    ExtraCompiles,
    FactMissing,
    Finished,
    GraphCaptured,
    RegionCalls,
    RegionCompiled,
    RegionCreated,
    SizesSeen,
    TimingEstimate,
)
from tcexplore.report.json_report import script_fields
from tcexplore.session.links import region_name
from tcexplore.worker import captured_stage
from tests.snapshots.runs import grow
from tests.supervisor.runs import Runs, only, printed

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

TRAINING = """\
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.head = torch.nn.Linear(64, 512), torch.nn.BatchNorm1d(512), torch.nn.Linear(512, 1)
    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.fc(x))))
net = Net()
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(torch.randn(5 * 64 + 16, 64), batch_size=64)
for epoch in range(4):
    for x in loader:
        loss = (compiled(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item():.9e}")
"""


async def test_captured_calls_of_a_training_loop_are_compared_and_timed(runs: Runs) -> None:
    alone = await runs.run(TRAINING, no_eager_steps=True, no_captured_calls=True)
    events = await runs.run(TRAINING, no_eager_steps=True, time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    assert printed(events) == printed(alone), "the same losses, to the last digit"
    assert not only(alone, CallExamined)
    assert not only(events, ExtraCompiles)
    assert len(only(events, GraphCaptured)) == len(only(alone, GraphCaptured))

    last = {event.call: event for event in only(events, CallExamined)}
    usual, rest = last.values()
    assert (usual.inputs, usual.calls, rest.inputs, rest.calls) == (("f32[64, 64]",), 20, ("f32[16, 64]",), 4)
    for examined in (usual, rest):
        assert examined.backward
        assert examined.notes == ()
        assert examined.accuracy is not None
        assert examined.accuracy.train
        assert examined.accuracy.verdict in ("identical", "as accurate as eager")
        assert {"output", "gradient of fc.weight", "buffer norm.running_mean"} <= {
            value.name for value in examined.accuracy.values
        }
        assert examined.memory is not None
        assert examined.memory.eager_peak
    # The second call is timed only if the first one leaves time for it.
    assert usual.missing == ()
    assert usual.timing is not None
    assert (usual.timing.unit, usual.timing.train) == ("call", True)
    assert usual.profile is not None
    assert usual.eager_lines is not None
    assert only(events, RegionCalls)[-1].calls == 24, "tcexplore's own calls do not count"
    assert not only(events, TimingEstimate), "that of a script is of its steps"
    assert not only(events, Accuracy)


INFERENCE = """\
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Embedding(10, 32), torch.nn.Linear(32, 10)).eval()
decode = torch.compile(net, backend="aot_eager")
with torch.inference_mode():
    for length in (3, 3, 4, 5, 6, 9, 3):
        decode(torch.ones(2, length, dtype=torch.long))
net.train()
"""


async def test_sizes_are_counted_and_the_largest_call_is_kept(runs: Runs) -> None:
    events = await runs.run(INFERENCE)
    assert isinstance(events[-1], Finished), events[-1]
    (seen,) = only(events, SizesSeen)
    assert [(sizes.inputs, sizes.calls, sizes.first_call) for sizes in seen.sizes] == [
        (("i64[2, 3]",), 3, 1), (("i64[2, 4]",), 1, 3), (("i64[2, 5]",), 1, 4), (("i64[2, 6]",), 1, 5),
        (("i64[2, 9]",), 1, 6),
    ]  # fmt: skip
    assert sum(sizes.compiles for sizes in seen.sizes) == sum(
        len(event.graphs) for event in only(events, RegionCompiled)
    )
    examined = {event.inputs[0]: event for event in only(events, CallExamined)}
    assert list(examined) == ["i64[2, 3]", "i64[2, 4]", "i64[2, 5]", "i64[2, 9]"]
    for event in examined.values():
        assert not event.backward
        assert event.missing == ()
        assert event.notes == (), "the module is in evaluation mode again, so that its guards hold"
        assert event.accuracy is not None
        assert event.accuracy.verdict in ("identical", "as accurate as eager")


NESTED = """\
import torch
@torch.compile(backend="eager")
def inner(x):
    return x.sin()
@torch.compile(backend="eager")
def outer(x):
    y = inner(x) + 1
    torch._dynamo.graph_break()
    return inner(y)
x = torch.ones(1 << 16)
for _ in range(6):
    outer(x)
    x.mul_(0.5)
"""


async def test_an_argument_that_the_script_changes_is_copied(runs: Runs) -> None:
    events = await runs.run(NESTED)
    assert isinstance(events[-1], Finished), events[-1]
    (examined,) = {event.region: event for event in only(events, CallExamined)}.values()
    assert examined.missing == ()
    assert examined.call > 1
    assert examined.accuracy is not None
    assert examined.accuracy.verdict == "identical"


LEFT_GRAPHS = """\
import torch
torch.manual_seed(0)
class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.h = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.state = torch.zeros(128, 64)
    def forward(self, x):
        self.state = torch.tanh(self.i(x) + self.h(self.state))
        return self.state
scale = torch.nn.Parameter(torch.ones(64))
@torch.compile(backend="aot_eager")
def scaled(x):
    x.mul_(0.5)
    return x * doubled, x + 1
cell = Cell()
step = torch.compile(cell, backend="aot_eager")
for _ in range(5):
    cell.state, doubled = cell.state.detach(), scale * 2
    for _ in range(3):
        y = step(torch.randn(128, 64))
    used, unused = scaled(y * 2)
    cell.zero_grad(set_to_none=False)
    used.sum().backward()
print("end")
"""


async def test_a_call_whose_state_belongs_to_a_graph_of_the_script_is_made_again(runs: Runs) -> None:
    events = await runs.run(LEFT_GRAPHS, time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    assert printed(events) == "end\n", "an output without a gradient does not end the script"
    examined = {event.region: event for event in only(events, CallExamined)}
    assert len(examined) == 2
    for event in examined.values():
        assert event.accuracy is not None
        assert (event.accuracy.verdict, event.accuracy.train) == ("identical", True)


BROKEN = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.sin()
        print("between")
        return y.cos()
net = torch.compile(Net(), backend="eager")
for _ in range(50):
    x = torch.ones(4, requires_grad=True)
    net(x).mul(3).sum().backward()
print("end")
"""


async def test_a_region_of_a_script_is_run_as_a_model_file(runs: Runs) -> None:
    events = await runs.run(BROKEN, region="Net", time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    (entry,) = only(events, EntryFound)
    assert (entry.name, entry.kind, entry.calls) == ("Net", "module", (("f32[4]",),))
    assert "gradients that came" in entry.notes[-1]
    assert "end" not in printed(events), "the script ends once the call is captured"
    assert len(only(events, GraphCaptured)) == 2
    (accuracy,) = only(events, Accuracy)
    assert accuracy.train
    assert "gradient of input[0]" in {value.name for value in accuracy.values}
    assert only(events, TimingEstimate)


async def test_an_unknown_region_is_named_with_those_that_exist(runs: Runs) -> None:
    failed = await runs.failure(BROKEN, region="Other")
    assert "Other" in failed.message
    assert "Net" in failed.hint


OPTIMIZER_FUNCTION = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(16, 4)
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
@torch.compile(backend="aot_eager")
def update():
    optimizer.step()
for _ in range(6):
    optimizer.zero_grad()
    compiled(torch.randn(8, 16)).square().mean().backward()
    update()
"""


async def test_a_region_without_tensors_among_its_arguments_is_not_made_again(runs: Runs) -> None:
    events = await runs.run(OPTIMIZER_FUNCTION, no_eager_steps=True, time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    names = {region.region: region.name for region in only(events, RegionCreated)}
    assert {names[examined.region] for examined in only(events, CallExamined)} == {"Linear"}
    (reason,) = {missing.reason for missing in only(events, FactMissing) if missing.fact == "captured calls"}
    assert reason.startswith("update: it has no tensor among its arguments")


LAYERS = """\
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.up, self.act = nn.Linear(64, 64), nn.SiLU() if number == 2 else nn.GELU()
    def forward(self, x):
        return self.act(self.up(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block(number) for number in range(5))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
model = Model()
for layer in model.layers:
    layer.compile(backend="aot_eager")
with torch.no_grad():
    for _ in range(6):
        model(torch.randn(128, 64))
"""


async def test_layers_that_are_compiled_one_by_one_are_in_one_tree(runs: Runs) -> None:
    events = await runs.run(LAYERS, no_eager_steps=True, time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    run = grow(1, events, LAYERS)
    regions = {known["region"]: known["module"] for known in script_fields(run)["regions"]}
    assert regions == {number: f"layers.{number}" for number in range(5)}
    assert region_name(run, 1) == f"Block layers.1 line {LAYERS.splitlines().index('for layer in model.layers:') + 2}"
    rows = {row.path: row for row in timed_tree(run).rows if row.depth == 2}
    assert list(rows) == ["layers.0", "layers.1, 3 – 4", "layers.2"]
    assert rows["layers.1, 3 – 4"].same_as == "layers.0", "they run its code"
    assert "SiLU" in rows["layers.2"].differs
    examined = run.captured_calls[0].region
    assert examined in (0, 2), "the layers that compiled something"
    assert [row.path for row in rows.values() if row.eager_us] == [f"layers.{examined}"]
    assert list(timed_tree(run).root.children) == ["layers"], "the layer that is timed alone is not the program"


LIBRARY = """\
import torch
net = torch.compile(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()), backend="aot_eager")
for _ in range(6):
    net(torch.randn(128, 64)).sum().backward()
"""


async def test_ops_outside_the_users_files_belong_to_the_line_that_calls_the_region(runs: Runs) -> None:
    events = await runs.run(LIBRARY, no_eager_steps=True, time_for=0.2)
    timed = grow(1, events, LIBRARY).eager_lines
    assert timed is not None
    assert {(line.location.line, line.phase) for line in timed.lines} == {(4, "forward"), (4, "backward")}


LOSS_FUNCTION = """\
import torch
net = torch.nn.Linear(16, 4)
@torch.compile(backend="aot_eager")
def loss_of(x):
    return net(x).square().mean()
for _ in range(6):
    net.zero_grad()
    loss_of(torch.randn(8, 16)).backward()
"""


async def test_the_parameters_that_a_function_reads_are_its_weights(runs: Runs) -> None:
    events = await runs.run(LOSS_FUNCTION, no_eager_steps=True, time_for=0.2)
    examined = only(events, CallExamined)[-1]
    assert examined.memory is not None
    assert examined.memory.weights == 4 * (16 * 4 + 4)
    assert examined.memory.saved_for_backward == 4 * 8 * 4, "the result of the layer, not its weight"
    assert examined.profile is not None
    ops = {part.name for part in examined.profile.parts if part.kind == "eager op"}
    assert "aten.add_" not in ops, "gradients of earlier calls are dropped"


GRADIENTS = """\
import torch
@torch.compile(backend="aot_eager")
def step(w, x):
    return torch.func.grad(lambda w: (x @ w).square().mean())(w).sum()
w = torch.nn.Parameter(torch.ones(4))
for _ in range(6):
    step(w, torch.randn(8, 4)).backward()
"""


async def test_memory_is_measured_where_what_is_saved_for_the_backward_is_not_known(runs: Runs) -> None:
    events = await runs.run(GRADIENTS, no_eager_steps=True, time_for=0)
    examined = only(events, CallExamined)[-1]
    assert examined.memory is not None, examined.missing
    assert examined.memory.eager_peak
    assert examined.memory.saved_for_backward is None
    assert "saved tensor hooks" in examined.memory.notes[-1]


METHOD = """\
import torch
from torch import nn
torch.manual_seed(0)
class Trainer:
    def __init__(self):
        self.net, self.loss = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU()), nn.MSELoss()
        self.head = nn.Linear(32, 4)
    @torch.compile(backend="aot_eager")
    def losses(self, x, y):
        return self.loss(self.head(self.net(x)), y) * scale.weight.sum()
scale = nn.Linear(2, 1)
trainer = Trainer()
for _ in range(6):
    trainer.losses(torch.randn(8, 16), torch.randn(8, 4)).backward()
"""


async def test_the_gradients_of_modules_that_a_method_of_another_object_uses_are_compared(runs: Runs) -> None:
    events = await runs.run(METHOD, time_for=0.2)
    (examined, *_) = [event for event in events if isinstance(event, CallExamined) and event.accuracy is not None]
    accuracy, memory = examined.accuracy, examined.memory
    assert accuracy is not None
    assert accuracy.verdict in ("identical", "as accurate as eager")
    names = {value.name: value for value in accuracy.values}
    assert {"gradient of net.0.weight", "gradient of head.bias", "gradient of scale.weight"} <= names.keys()
    assert "buffer net.1.running_mean" in names
    assert names["gradient of net.0.weight"].compiled_vs_fp64 is not None, accuracy.reason
    assert memory is not None
    weights = 16 * 32 + 32 + 2 * 32 + 32 * 4 + 4 + 2 + 1
    assert memory.weights == 4 * (weights + 2 * 32) + 8, "with the statistics of the batch norm, and its counter"


WHOLE_STEP = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(64, 512)
optimizer = torch.optim.AdamW(net.parameters(), 0.1)
@torch.compile(backend="aot_eager")
def step(x):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
for _ in range(6):
    step(torch.randn(8, 64))
"""


async def test_a_step_with_its_optimizer_is_compared_in_the_parameters_that_it_sets(runs: Runs) -> None:
    """The weights are larger than what is copied before a first call."""
    events = await runs.run(WHOLE_STEP, time_for=0.2)
    (examined, *_) = [event for event in events if isinstance(event, CallExamined) and event.accuracy is not None]
    accuracy = examined.accuracy
    assert accuracy is not None
    assert accuracy.verdict in ("identical", "close to eager"), accuracy.reason
    names = {value.name for value in accuracy.values}
    assert {"output", "parameter net.weight", "gradient of net.weight"} <= names


DROPOUT = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.2), nn.Softmax(-1), nn.LayerNorm(256))
model = torch.compile(net)
for _ in range(6):
    model(torch.randn(64, 64)).square().mean().backward()
"""


async def test_a_program_with_random_numbers_is_compared_with_compiled_code(runs: Runs) -> None:
    events = await runs.run(DROPOUT, backend="inductor", time_for=0.2)
    (examined, *_) = [event for event in events if isinstance(event, CallExamined) and event.accuracy is not None]
    accuracy = examined.accuracy
    assert accuracy is not None
    assert (accuracy.random, accuracy.fallback_random) == (True, True)
    assert accuracy.verdict == "as accurate as eager", accuracy.reason
    assert accuracy.max_abs, (
        "the code of another compiler rounds otherwise: it is not eager that is compared with itself"
    )


STEPS_OF_CUDA_GRAPHS = """\
import torch
from torch._inductor import cudagraph_trees
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
    def forward(self, x):
        if not torch.compiler.is_compiling():
            with open(__file__ + ".steps", "a") as file:
                print(cudagraph_trees.MarkStepBox.mark_step_counter, file=file)
        return self.fc(x).relu()
net = Net()
compiled = torch.compile(net, backend="aot_eager")
for step in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    compiled(torch.ones(2, 8)).sum().backward()
"""


async def test_each_captured_call_is_a_step_of_cuda_graphs_if_the_script_marks_them(runs: Runs) -> None:
    await runs.run(STEPS_OF_CUDA_GRAPHS, no_eager_steps=True, time_for=0.1)
    steps = runs.file.with_suffix(".py.steps").read_text().split()
    assert len(steps) > 10
    assert len(set(steps)) == len(steps)
    assert min(map(int, steps)) < -6


PARAMETERS_AS_ARGUMENTS = """\
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
@torch.compile(backend="aot_eager")
def loss_of(parameters, x):
    return torch.func.functional_call(net, parameters, (x,)).square().mean()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(8):
    loss = loss_of(dict(net.named_parameters()), torch.randn(4, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

ON_META = """\
import copy, torch
torch.manual_seed(0)
models = [torch.nn.Linear(8, 1) for _ in range(3)]
base = copy.deepcopy(models[0]).to("meta")
def output(parameters, x):
    return torch.func.functional_call(base, parameters, (x,))
outputs = torch.compile(torch.func.vmap(output, in_dims=(0, None)), backend="aot_eager")
parameters, _ = torch.func.stack_module_state(models)
for step in range(8):
    outputs(parameters, torch.randn(4, 8)).square().mean().backward()
"""

JAGGED = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(8, 8)
compiled = torch.compile(net, backend="aot_eager")
for step in range(8):
    rows = [torch.randn(3 + step % 3, 8), torch.randn(2, 8)]
    compiled(torch.nested.nested_tensor(rows, layout=torch.jagged)).values().sum().backward()
    net.zero_grad()
"""


@pytest.mark.parametrize("program", [PARAMETERS_AS_ARGUMENTS, ON_META, JAGGED])
async def test_arguments_that_are_parameters_or_nested_are_captured(runs: Runs, program: str) -> None:
    events = await runs.run(program, no_eager_steps=True, time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    (examined,) = {event.call: event for event in only(events, CallExamined)}.values()
    assert examined.accuracy is not None, examined.missing
    assert examined.accuracy.verdict in ("identical", "as accurate as eager")
    assert examined.calls == 8
    assert examined.memory is not None
    assert (examined.memory.device, examined.memory.weights > 0) == ("cpu", program is not ON_META)


SHARDED = """\
import torch
from torch.distributed.fsdp import fully_shard
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
net = torch.nn.Sequential(torch.compile(torch.nn.Linear(8, 8), backend="aot_eager"), torch.nn.Linear(8, 1))
fully_shard(net[0])
fully_shard(net)
for step in range(8):
    net(torch.randn(4, 8)).sum().backward()
    net.zero_grad()
"""


async def test_a_module_that_is_sharded_between_its_calls_is_not_called_again(runs: Runs) -> None:
    events = await runs.run(SHARDED, no_eager_steps=True, time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    (examined,) = only(events, CallExamined)
    assert examined.missing == ("FSDP has its parameters together only while the script calls it",)


async def test_a_region_with_a_backward_comes_before_one_whose_calls_alone_take_longer() -> None:
    def call(gradients: dict[int, object]) -> SimpleNamespace:
        return SimpleNamespace(gradients=gradients, count=SimpleNamespace(calls=1))

    function, model = call({}), call({0: object()})
    captures, regions = Mock(calls={0: {"f": function}, 1: {"m": model}}), Mock(compiled={0, 1})
    regions.seconds = {0: (2.0, 9.0), 1: (1.0, 2.0)}
    assert captured_stage._in_order(captures, regions) == [model, function]
    regions.seconds = {0: (4.0, 9.0), 1: (1.0, 2.0)}
    assert captured_stage._in_order(captures, regions) == [function, model]
