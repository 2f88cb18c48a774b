"""One program, live in a worker and through its own TORCH_TRACE: equal but for what a trace lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.bytecode_steps import bytecode_steps
from tcexplore.session.snapshot import start_snapshot
from tcexplore.session.stable_ids import stable_ids
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot
from tests.supervisor.runs import Runs

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.scale = 3

    def forward(self, x, y, flag):
        x = torch.nn.functional.gelu(self.up(x))
        if self.scale > 2:
            x = x * self.scale
        print("hello")
        return x.softmax(-1)[:, 2:] + y if flag else x + 1


torch.manual_seed(0)
net = torch.compile(Net())
for rows, flag in ((4, True), (4, False), (6, False)):
    net(torch.randn(rows, 8), torch.randn(rows, 1), flag)
"""


PARTS = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up0 = torch.nn.Linear(96, 1000)
        self.down0 = torch.nn.Linear(1000, 96)
        self.up1 = torch.nn.Linear(96, 1000)
        self.down1 = torch.nn.Linear(1000, 96)

    def forward(self, x):
        h = torch.sigmoid(self.up0(x))
        x = x + self.down0(h)
        h = torch.sigmoid(self.up1(x))
        return x + self.down1(h)


torch.manual_seed(0)
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=1)
compiled = torch.compile(model)
for _ in range(2):
    compiled(torch.randn(64, 96)).square().mean().backward()
torch.distributed.destroy_process_group()
"""
"""DDP compiles it in two parts, whose nodes have the same names."""


REPEATED = """\
import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        y = self.norm(x)
        y = self.up(y)
        y = torch.relu(y)
        y = self.down(y)
        return x + y


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


torch.manual_seed(0)
with torch.no_grad():
    torch.compile(Net())(torch.randn(8, 16))
"""
"""The code of its layers, but for the first, stands once: its nodes have the names of other nodes."""


LIBRARY = """\
import torch
from torch import nn


class Mask(nn.Module):
    def forward(self, x):
        kept = torch.empty_like(x).bernoulli_(0.5)
        return x * kept


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mask = nn.Linear(8, 16), Mask()

    def forward(self, x):
        x = self.up(x)
        torch._dynamo.graph_break()
        return self.mask(x)
"""

OF_LIBRARY = f"""\
import pathlib
import sys

import torch

folder = pathlib.Path(__file__).parent / "site-packages"
folder.mkdir(exist_ok=True)
(folder / "zoo.py").write_text({LIBRARY!r})
sys.path.insert(0, str(folder))
import zoo


class Own(zoo.Mask):
    def forward(self, x):
        return super().forward(x) + 1


torch.manual_seed(0)
torch._inductor.config.fallback_random = True
net = zoo.Net()
with torch.no_grad():
    torch.compile(net)(torch.randn(4, 8))
    net.mask = Own()
    torch.compile(net)(torch.randn(5, 8))
"""
"""Compiles a library's model, which breaks; then with a layer of its own that calls the library."""


RECOMPUTED = """\
import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = torch.nn.functional.dropout(h, 0.1)
        return x + self.down(h)


torch.manual_seed(0)
torch._inductor.config.fallback_random = True
block = Block()
compiled = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False).square().mean())
compiled(torch.randn(8, 16)).backward()
"""
"""Computes the dropout again in the backward, with the state that random numbers had in the forward."""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return trace_of(PROGRAM, tmp_path_factory.mktemp("traced"))


def trace_of(source: str, folder: Path) -> Snapshot:
    """Run a program with TORCH_TRACE and empty caches, and read that."""
    (folder / "model.py").write_text(source)  # the name of the live file: it is part of the ids
    caches = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0", "INDUCTOR_PROVENANCE": "1"}
    subprocess.run(
        [sys.executable, str(folder / "model.py")], check=True, capture_output=True,
        env={**os.environ, "TORCH_TRACE": str(folder / "trace"), **caches},
    )  # fmt: skip
    job = open_inputs(trace_inputs([str(folder / "trace")])).jobs[0]
    return read_snapshot(TraceRun(job.ranks[0], 1))


async def live_run(runs: Runs, source: str) -> Snapshot:
    """Run a program in a worker."""
    events = await runs.run(source, backend="inductor")
    live = start_snapshot(ev.Job(run=events[-1].run, file=str(runs.file), source=source))
    for event in events:
        live = live.apply(event)
    return live


@pytest.mark.asyncio(loop_scope="session")
async def test_a_trace_has_the_facts_of_the_live_run(shared_runs: Runs, traced: Snapshot):
    live = await live_run(shared_runs, PROGRAM)
    assert live.status == "ok"
    assert [graph.graph for graph in traced.graphs] == [graph.graph for graph in live.graphs]
    for mine, other in zip(traced.graphs, live.graphs, strict=True):
        assert [_node(node) for node in mine.nodes] == [_node(node) for node in other.nodes]
    assert [_break(known) for known in traced.breaks] == [_break(known) for known in live.breaks]
    assert [_recompile(known) for known in traced.recompiles] == [_recompile(known) for known in live.recompiles]
    for mine_guards, other_guards in zip(traced.guards, live.guards, strict=True):
        assert sorted(map(_guard, mine_guards.guards)) == sorted(map(_guard, other_guards.guards))
    assert [_kernel(kernel) for kernel in traced.code.kernels] == [_kernel(kernel) for kernel in live.code.kernels]
    assert traced.source == live.source
    assert any(function.resumed for function in live.rewritten)
    steps = {(function.graph, function.code_name): _steps(function) for function in live.rewritten}
    for function in traced.rewritten:  # torch writes them since 2.13, those of resume functions only
        assert _steps(function) == steps[function.graph, function.code_name]
    assert _ids(traced) == _ids(live)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_parts_of_a_graph_have_nodes_and_lines_of_their_own(shared_runs: Runs, tmp_path: Path):
    live = await live_run(shared_runs, PARTS)
    for run in (live, trace_of(PARTS, tmp_path)):
        nodes = {
            (graph.phase, node.name): node
            for graph in run.code.aten_graphs
            if graph.stage == "post_grad"
            for node in graph.nodes
        }
        assert len(nodes) == sum(len(graph.nodes) for graph in run.code.aten_graphs if graph.stage == "post_grad")
        assert any(name.startswith("submod_1.") for _, name in nodes)
        products = [kernel for kernel in run.code.kernels if kernel.language == "extern"]
        assert len({(kernel.phase, kernel.nodes) for kernel in products}) == len(products) >= 8
        assert len({(kernel.phase, kernel.name) for kernel in products}) == len(products)
        for kernel in products:
            lines = {place.line for name in kernel.nodes if (place := nodes[kernel.phase, name].location)}
            assert lines <= {place.line for place in kernel.source_lines}
            assert all(13 <= place.line <= 16 for place in kernel.source_lines)
        modules = {
            (node.location.line, node.module.rpartition(".")[2])
            for node in nodes.values()
            if node.location and node.module and node.module.endswith(("0", "1"))
        }
        assert modules == {(13, "up0"), (14, "down0"), (15, "up1"), (16, "down1")}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_model_of_a_library_has_the_lines_of_the_library(shared_runs: Runs, tmp_path: Path):
    live = await live_run(shared_runs, OF_LIBRARY)
    own = OF_LIBRARY.splitlines().index("        return super().forward(x) + 1") + 1
    for run in (live, trace_of(OF_LIBRARY, tmp_path)):
        called = [_place(node) for graph in run.graphs for node in graph.nodes if node.op.startswith("call")]
        assert called[:5] == [("zoo.py", line) for line in (17, 7, 7, 8, 17)]
        # A trace has only the innermost line of what the user's layer calls.
        inner = [("model.py", own)] * 3 if run is live else [("zoo.py", line) for line in (7, 7, 8)]
        assert called[5:] == [*inner, ("model.py", own)]
        assert {_place(known) for known in run.breaks} == {("zoo.py", 18)}
        calls = [kernel for kernel in run.code.kernels if kernel.language == "extern" and "bernoulli" in kernel.name]
        places = [{(Path(place.file).name, place.line) for place in kernel.source_lines} for kernel in calls]
        assert places == [{("zoo.py", 7)}, {inner[0]}], "a call that changes its argument is a kernel too"
        assert "zoo.py" in {Path(source.file).name for source in run.sources}


@pytest.mark.asyncio(loop_scope="session")
async def test_an_op_with_a_saved_state_of_random_numbers_is_that_op_with_its_line(shared_runs: Runs, tmp_path: Path):
    live = await live_run(shared_runs, RECOMPUTED)
    for run in (live, trace_of(RECOMPUTED, tmp_path)):
        calls = [kernel for kernel in run.code.kernels if "dropout" in kernel.name and kernel.language == "extern"]
        assert [(kernel.name, kernel.phase) for kernel in calls] == [
            ("torch.ops.aten.native_dropout.default", "forward"),
            ("torch.ops.aten.native_dropout.default", "backward"),
        ]
        assert [[place.line for place in kernel.source_lines] for kernel in calls] == [[12], [12]]
        assert all("aten.native_dropout" in kernel.ops for kernel in calls)


def _place(fact: ev.FxNode | ev.GraphBreak) -> tuple[str, int] | None:
    return (Path(fact.location.file).name, fact.location.line) if fact.location else None


@pytest.mark.asyncio(loop_scope="session")
async def test_kernels_of_a_nested_compile_region_have_its_nodes_and_lines(shared_runs: Runs, tmp_path: Path):
    live = await live_run(shared_runs, REPEATED)
    traced = trace_of(REPEATED, tmp_path)
    for run in (live, traced):
        inside = [
            call for kernel in run.code.kernels for call in kernel.calls if any("." in name for name in call.nodes)
        ]
        assert len(inside) == 5
        assert all(all("." in name for name in call.nodes) for call in inside), "none is of the graph around it"
        lines = [{place.line for place in call.source_lines} for call in sorted(inside, key=lambda call: call.order)]
        assert lines == [{11}, {12}, {13}, {14}, {15}]
    calls = [
        [(kernel.name, call.order, call.nodes) for kernel in run.code.kernels for call in kernel.calls]
        for run in (live, traced)
    ]
    assert calls[0] == calls[1]


def _steps(function: ev.FunctionRewritten) -> list[tuple[str, str]]:
    """Return the steps without arguments by name, which a trace lacks, and lines, which it has for some."""
    kinds = {"python": "other"}
    return [(kinds.get(step.kind, step.kind), re.sub(r"\w+=", "", step.text)) for step in bytecode_steps(function)]


def _ids(run: Snapshot) -> dict[str, list[str]]:
    """Return the stable ids of breaks, Dynamo nodes, guards and kernels."""
    ids = stable_ids(run)
    return {
        "breaks": [ids.graph_break(known) for known in run.breaks],
        "ops": [op for graph in run.graphs for op in ids.ops(graph)],
        "guards": sorted(ids.guard(guard) for installed in run.guards for guard in installed.guards),
        "kernels": [ids.kernel(kernel) for kernel in run.code.kernels],
        "lines": [ids.line(run.file, line) for line in range(1, 20)],
    }


def _line(location: ev.Location | None) -> int:
    return location.line if location else 0


def _node(node: ev.FxNode) -> tuple[object, ...]:
    """Return a node without its module and the outer frames of its stack, which a trace lacks."""
    value = (node.dtype, node.shape, node.stride, node.contiguous, node.device)
    return node.name, node.op, node.target, node.args, node.inputs, value, _line(node.location)


def _break(graph_break: ev.GraphBreak) -> tuple[object, ...]:
    return graph_break.graph, graph_break.registry_id, graph_break.kind, graph_break.reason, _line(graph_break.location)


def _recompile(recompile: ev.Recompiled) -> tuple[object, ...]:
    return recompile.graph, recompile.failed_entry, recompile.kind, recompile.name, recompile.old, recompile.new


def _guard(guard: ev.Guard) -> tuple[str, ...]:
    """Return a guard without its line, which a trace has only for some. torch numbers the dicts of builtins."""
    source = re.sub(r"__builtins_dict___\d+", "__builtins_dict__", guard.source)
    return guard.kind, source, guard.summary, str(guard.structural)


def _kernel(kernel: ev.Kernel) -> tuple[object, ...]:
    """Return a kernel without figures of the scheduler, which a trace lacks; its ops come from its name there."""
    return kernel.graph, kernel.phase, kernel.name, kernel.language, kernel.source, kernel.nodes


LIBRARY = """\
import torch

net = torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)))
net(torch.randn(8, 16)).sum().backward()
"""
"""torch writes no line for the nodes of its own modules."""


@pytest.mark.asyncio(loop_scope="session")
async def test_a_module_of_torch_has_the_line_that_calls_it(shared_runs: Runs, tmp_path: Path) -> None:
    live, trace = await live_run(shared_runs, LIBRARY), trace_of(LIBRARY, tmp_path)
    for run in (live, trace):
        kernels = run.code.kernels
        assert {kernel.phase for kernel in kernels} == {"forward", "backward"}
        assert {tuple(line.line for line in kernel.source_lines) for kernel in kernels} == {(4,)}
        nodes = [node for captured in run.graphs for node in captured.nodes if node.op == "call_function"]
        assert {node.location.line if node.location else None for node in nodes} == {4}


WRITES = """\
import torch

@torch.compile
def write(cache, index, x):
    cache.index_copy_(0, index, x.sin())
    return cache.sum(0)

with torch.no_grad():
    write(torch.zeros(16, 64), torch.tensor([3]), torch.ones(1, 64))
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_an_op_in_place_has_its_name_in_the_kernels(shared_runs: Runs, tmp_path: Path) -> None:
    """A kernel's name has no dots: `index_copy` is no `index` and `copy`."""
    live, trace = await live_run(shared_runs, WRITES), trace_of(WRITES, tmp_path)
    known = {op for kernel in live.code.kernels for op in kernel.ops}
    assert "aten.index_copy" in known
    assert {op for kernel in trace.code.kernels for op in kernel.ops} == known
