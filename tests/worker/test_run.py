"""One run from its job to its last event, in a real worker with a real compiler."""

from __future__ import annotations

import pytest
import torch

from tcexplore.documents.empty_states import PROCESSES_S, nothing_compiled_rows
from tcexplore.events import (
    PHASES,
    Accuracy,
    AtenGraph,
    CallMade,
    CallsRestarted,
    EntryFound,
    Failed,
    Finished,
    GraphCaptured,
    Kernel,
    PhaseStarted,
    PhaseTimed,
    ScriptEnded,
    TimingEstimate,
    TimingSkipped,
)
from tcexplore.events.run_events import Phase
from tests.snapshots.runs import grow
from tests.supervisor.runs import MLP, Runs, failed_facts, only, printed

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(autouse=True)
def warm_up(shared_runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process for each next run warm up, as in the app."""
    monkeypatch.setattr(shared_runs.supervisor._pool, "warm_up", True)


async def test_a_module_is_called_compiled_then_eagerly_then_timed(runs: Runs) -> None:
    events = await runs.run(MLP, backend="inductor", time_for=0.2)
    assert isinstance(events[-1], Finished), events[-1]
    assert all(event.run == events[0].run for event in events)
    phases = [event.phase for event in only(events, PhaseStarted)]
    assert set(phases) <= set(PHASES)
    milestones: list[Phase] = [
        "importing", "dynamo", "aot", "inductor", "compiler", "eager", "accuracy", "timing",
    ]  # fmt: skip
    assert sorted(milestones, key=phases.index) == milestones
    seconds = [event.at for event in only(events, PhaseStarted)]
    assert seconds == sorted(seconds)
    assert [(call.variant, call.compiles) for call in only(events, CallMade)] == [("compiled", 1), ("eager", 0)]
    compiled, eager = only(events, CallMade)
    assert (eager.graph_seconds, eager.frame_seconds) == (None, None)
    assert compiled.graph_seconds is not None
    assert compiled.cpu_seconds is not None
    assert compiled.cpu_seconds > 0
    assert 0 < compiled.graph_seconds < compiled.seconds
    assert only(events, GraphCaptured)
    assert only(events, Kernel)
    *_, timing = only(events, TimingEstimate)
    (process,) = timing.processes
    assert (process.memory, process.pairs) == ("memory kept", timing.pairs)
    assert process.eager_page_faults is not None
    whole = max(only(events, PhaseTimed), key=lambda span: span.seconds)
    assert (whole.name, whole.graph, whole.depth) == ("dynamo", "0/0", 0)


async def test_training_compiles_the_backward_with_the_loss_of_the_file(runs: Runs) -> None:
    loss = "def loss(output):\n    print('loss of', tuple(output.shape))\n    return output.square().sum()\n"
    events = await runs.run(MLP + loss, backend="inductor", train=True)
    assert isinstance(events[-1], Finished), events[-1]
    assert printed(events) == "loss of (4, 16)\n" * 2
    assert "backward" in [event.phase for event in only(events, PhaseStarted)]
    assert {kernel.phase for kernel in only(events, Kernel)} == {"forward", "backward"}


COMPILED_BY_FILE = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x.sin().cos()
model = torch.compile(Net(), backend="aot_eager", dynamic=False)
inputs = (torch.ones(4),)
"""


async def test_a_model_that_the_file_has_compiled_is_called_as_it_is(runs: Runs) -> None:
    events = await runs.run(COMPILED_BY_FILE, backend="inductor", time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    assert not only(events, Kernel), "the backend is that of the file"
    assert only(events, Accuracy)[-1].verdict == "identical"


COMPILED_BY_LIBRARY = """\
import torch, tool_of_a_library
for step in range(6):
    print(tool_of_a_library.step(torch.ones(4) * step).sum().item())
"""
LIBRARY = """\
import torch
@torch.compile(backend="aot_eager")
def step(x):
    return (x.sin() * 2).cos()
"""


async def test_a_file_whose_library_compiles_something_is_run_as_a_script(runs: Runs) -> None:
    (runs.file.parent / "tool_of_a_library.py").write_text(LIBRARY)
    events = await runs.run(COMPILED_BY_LIBRARY)
    assert isinstance(events[-1], Finished), events[-1]
    (entry,) = only(events, EntryFound)
    assert entry.kind == "script"
    assert only(events, CallsRestarted)[-1].need == "script"
    after = events[events.index(only(events, CallsRestarted)[-1]) :]
    assert [graph.graph for graph in only(after, GraphCaptured)] == ["0/0"]


IN_PROCESSES = """\
import torch
def work(rank):
    torch.compile(torch.sin, backend="aot_eager")(torch.ones(4))
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
"""
ARGUMENTS = """\
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
print(parser.parse_args())
torch.compile(torch.sin)
"""


async def test_a_script_that_compiles_in_other_processes_does_not_run_eagerly(runs: Runs) -> None:
    runs.file.write_text(IN_PROCESSES)  # the process imports it
    events = await runs.run(IN_PROCESSES)
    assert only(events, ScriptEnded)[-1].processes_s > PROCESSES_S
    run = grow(1, events, IN_PROCESSES)
    text = "\n".join(line.text for line in nothing_compiled_rows(run, 200))
    assert "captured no graph in this process" in text
    assert "tcexplore run -- python" in text


async def test_a_script_that_lacks_arguments_says_where_they_go(runs: Runs) -> None:
    failed = (await runs.run(ARGUMENTS))[-1]
    assert isinstance(failed, Failed)
    assert "after `--`" in failed.hint


async def test_calls_are_made_in_order_with_restored_inputs(runs: Runs) -> None:
    source = "import torch\ndef model(x):\n    print(x.tolist())\n    return x.add_(1)\n"
    inputs = "inputs = [(torch.zeros(n),) for n in (1, 2, 3)]\n"
    events = await runs.run(source + inputs)
    calls = [(call.variant, call.index) for call in only(events, CallMade)]
    assert calls == [(variant, index) for variant in ("compiled", "eager") for index in (0, 1, 2)]
    assert printed(events) == "[0.0]\n[0.0, 0.0]\n[0.0, 0.0, 0.0]\n" * 2
    assert only(events, EntryFound)[0].calls == (("f32[1]",), ("f32[2]",), ("f32[3]",))


async def test_a_script_runs_as_main_with_its_arguments_and_its_compiles_are_captured(runs: Runs) -> None:
    source = """\
import sys, torch
@torch.compile(backend="eager")
def double(x):
    return x * 2
if __name__ == "__main__":
    print(sys.argv[1:], double(torch.ones(2)).tolist())
    sys.exit(0)
"""
    events = await runs.run(source)
    assert isinstance(events[-1], Finished), events[-1]
    assert printed(events) == "['one', 'two'] [2.0, 2.0]\n"
    assert only(events, EntryFound)[0].kind == "script"
    assert [graph.frame for graph in only(events, GraphCaptured)]
    assert only(events, TimingSkipped)


async def test_seed_and_threads_are_set_and_caches_are_disabled(runs: Runs) -> None:
    source = """\
import random, torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
print(torch.get_num_threads(), inductor.fx_graph_cache, functorch.enable_autograd_cache)
print(torch.rand(1).item(), random.random())
model, inputs = torch.nn.ReLU(), (torch.ones(2),)
"""
    first = printed(await runs.run(source, seed=3, threads=1))
    assert first.startswith("1 False False\n")
    assert first == printed(await runs.run(source, seed=3, threads=1))
    assert first != printed(await runs.run(source, seed=4, threads=1))


async def test_mkl_chooses_its_threads_unless_the_job_sets_them(runs: Runs) -> None:
    source = """\
import ctypes, pathlib, torch
mkl = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
print(mkl.mkl_serv_get_dynamic())
model, inputs = torch.nn.ReLU(), (torch.ones(2),)
"""
    if not torch.backends.mkl.is_available():
        pytest.skip("this torch has no MKL")
    assert printed(await runs.run(source)) == "1\n"
    assert printed(await runs.run(source, threads=2)) == "0\n"


async def test_a_run_uses_the_saved_text_even_in_tracebacks(runs: Runs) -> None:
    runs.file.write_text("something else entirely\n" * 5)
    failed = (await runs.run("import torch\n\nraise ValueError('here')  # the saved line\n"))[-1]
    assert isinstance(failed, Failed)
    assert "# the saved line" in failed.traceback


async def test_a_module_that_changes_within_a_second_is_imported_again(runs: Runs) -> None:
    helper = runs.file.with_name("within_a_second.py")
    source = "import torch, within_a_second as w\nprint(w.value)\nmodel, inputs = torch.nn.ReLU(), (torch.ones(1),)\n"
    for value in ("1", "2", "3"):
        helper.write_text(f"value = {value}\n")
        assert printed(await runs.run(source)) == f"{value}\n"


async def test_a_decomposition_that_the_file_registers_is_used(runs: Runs) -> None:
    source = """\
import torch
from torch._inductor.decomposition import register_decomposition
@register_decomposition([torch.ops.aten.erfc])
def erfc(x):
    return 1 - torch.erf(x)
model, inputs = torch.erfc, (torch.ones(2),)
"""
    events = await runs.run(source, backend="aot_eager_decomp_partition")
    (graph,) = only(events, AtenGraph)
    assert "aten.erf.default" in [node.target for node in graph.nodes]


async def test_inputs_that_change_their_shape_in_place_are_restored(runs: Runs) -> None:
    source = "import torch\ndef model(x):\n    return x.t_().sin(), x.add_(1)\ninputs = (torch.ones(2, 3),)\n"
    events = await runs.run(source)
    assert isinstance(events[-1], Finished), events[-1]
    assert [call.variant for call in only(events, CallMade)] == ["compiled", "eager"]
    assert only(events, Accuracy)[0].verdict == "identical"


async def test_nested_tensors_are_compared_and_raise_nothing_in_hooks(runs: Runs) -> None:
    source = """\
import torch
values = [torch.ones(3, 8), torch.ones(5, 8)]
model, inputs = torch.nn.Linear(8, 8), (torch.nested.nested_tensor(values, layout=torch.jagged),)
"""
    events = await runs.run(source, backend="aot_eager")
    assert isinstance(events[-1], Finished), events[-1]
    assert failed_facts(events) == []
    (accuracy,) = only(events, Accuracy)
    assert accuracy.verdict in ("identical", "as accurate as eager"), accuracy


async def test_environment_variables_that_come_too_late_for_torch_are_reported(runs: Runs) -> None:
    source = "import os\nos.environ['TORCHINDUCTOR_FREEZING'] = '1'\nos.environ['MINE'] = '1'\n"
    events = await runs.run(source + "import torch\nmodel, inputs = torch.sin, (torch.ones(2),)\n")
    (missing,) = failed_facts(events)
    assert missing.symbol == "TORCHINDUCTOR_FREEZING"
    assert "set them in the shell" in missing.reason


CACHING_SCRIPT = """\
import torch
torch._inductor.config.fx_graph_cache = True
torch._functorch.config.enable_autograd_cache = True
def scale(x):
    return x.sin() * 3
torch.compile(scale)(torch.ones(5))
torch.compile(lambda x: x.cos() * 5, options={"fx_graph_cache": True})(torch.ones(5))
"""


async def test_a_script_that_switches_caches_on_has_its_kernels_in_each_run(runs: Runs) -> None:
    for _ in range(2):
        events = await runs.run(CACHING_SCRIPT, examine=False, backend="inductor")
        assert isinstance(events[-1], Finished), events[-1]
        assert len([event for event in events if isinstance(event, Kernel)]) == 2
