"""The memory study names what is in use at the peak, and advises only what it measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.capture.memory import AllocatorChange, in_use_at_peak
from tcexplore.documents.timing.memory_peak_rows import bars, lifetime_rows, peak_column
from tcexplore.session.memory_peak import (
    LiveTensor,
    MemoryPeak,
    eager_memory_peak,
    groups,
    memory_peak,
    name_allocations,
    named_peak,
)
from tcexplore.session.predicted_time import predicted_time_ratio
from tcexplore.session.snapshot import Snapshot, start_snapshot
from tcexplore.studies.memory import STUDY, MemoryOptions, MemoryRun, setting_of
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.studies.playback import JOB, json_of, played, printed
from tests.supervisor.runs import Runs as SharedRuns

MIB = 1 << 20

BUDGET = "torch._functorch.config.activation_memory_budget"

SETTINGS = ev.CompilerState(
    torch="2.13.0", defaults=((BUDGET, "1.0"), ("torch._functorch.config.donated_buffer", "True"))
)


def tensor(op: str, mib: int, born: int, dies: int | None, **more: Any) -> ev.EagerTensor:
    return ev.EagerTensor(op=op, bytes=mib * MIB, kind="activation", born=born, dies=dies, **more)


EAGER = ev.EagerPeak(
    bytes=10 * MIB, step=2, steps=6, forward_steps=3, phase="forward", op="aten.mul",
    tensors=(
        tensor("aten.addmm", 4, 0, 4, location=ev.Location(JOB.file, 7, "forward"), module="Model.layers.0"),
        tensor("aten.addmm", 4, 1, 3, location=ev.Location(JOB.file, 7, "forward"), module="Model.layers.1"),
        tensor("aten.mul", 2, 2, None),
    ),
    history=tuple(n * MIB for n in (4, 8, 10, 10, 6, 2)),
)  # fmt: skip


def measured(peak_mib: float, *, eager_mib: float = 10) -> ev.Memory:
    return ev.Memory(
        device="cpu", method="by hand", weights=MIB, inputs=MIB, eager_peak=int(eager_mib * MIB),
        compiled_peak=int(peak_mib * MIB), saved_for_backward=8 * MIB,
    )  # fmt: skip


def partitioned(saved_mib: int, recomputed: int = 0) -> ev.Partitioned:
    saved = ev.SavedTensor(name="mm", bytes=saved_mib * MIB, input=False)
    return ev.Partitioned(graph="0/0", saved=(saved,), recomputed=tuple(map(str, range(recomputed))))


def changed(speedup: float, low: float, high: float) -> ev.ChangeTimed:
    return ev.ChangeTimed(
        before_us=100.0, after_us=100.0 / speedup, speedup=speedup, low=low, high=high, verdict="slower", pairs=20
    )


def training_story(job: ev.Job) -> list[ev.Event]:
    settings = dict(text.split("=") for text in job.config.settings)
    peak, timed = 20.0, changed(1.0, 0.99, 1.01)
    state = SETTINGS
    if budget := settings.get(BUDGET):
        peak = {"0.7": 15.0, "0.5": 12.0, "0.3": 12.0}[budget]
        times = {"0.7": (0.95, 0.94, 0.96), "0.5": (0.80, 0.79, 0.81), "0.3": (0.75, 0.74, 0.76)}
        timed = changed(*times[budget])
        setting = ev.CompilerSetting(name=BUDGET, value=budget, default="1.0")
        state = ev.CompilerState(torch="2.13.0", settings=(setting,))
    elif settings:
        peak = 24.0
        state = ev.CompilerState(torch="2.13.0", defaults=(("torch._functorch.config.donated_buffer", "False"),))
    assert (job.baseline is not None) == bool(settings)
    explained = [EAGER] if job.explain_memory else []
    return [state, partitioned(8), measured(peak), *explained, *([timed] if settings else []), ev.Finished()]


async def test_a_budget_is_advised_with_its_measured_peak_and_time():
    state, player = await played("memory", training_story)
    assert [dict(text.split("=") for text in job.config.settings) for job in player.jobs] == [
        {}, {BUDGET: "0.7"}, {BUDGET: "0.5"}, {BUDGET: "0.3"}, {"torch._functorch.config.donated_buffer": "False"},
    ]  # fmt: skip
    as_it_is = next(line for line in printed("memory", state, 160).splitlines() if "as it is" in line)
    assert as_it_is.split()[-2:] == ["100", "µs"], "the call that the others are compared with"
    lines = json_of("memory", state)["conclusions"]
    assert lines[0] == "A compiled call needs 20.0 MiB at its peak, eager 10.0 MiB."
    assert lines[1] == (
        "activation_memory_budget=0.7 lowers the peak by 25% to 15.0 MiB and costs 5% of a compiled call [+4%, +6%]."
    )
    assert lines[2].startswith("activation_memory_budget=0.5 lowers the peak by 40% to 12.0 MiB and costs 25%")
    # 0.3 needs as much as 0.5, and longer: it is not on the frontier.
    assert lines[3:] == ["Donated buffers, which are on, save 4.0 MiB: without it, the peak is higher."]
    trials = {trial["change"]: trial for trial in json_of("memory", state)["trials"]}
    assert trials["activation_memory_budget=0.7"]["time_ratio"] == pytest.approx(1 / 0.95)
    assert trials["as it is"]["time_ratio"] is None


async def test_nothing_is_advised_that_the_file_overrides():
    def story(job: ev.Job) -> list[ev.Event]:
        timed = [changed(1.0, 0.99, 1.01)] if job.config.settings else []
        # The file sets the budget itself: every run compiles with 0.4.
        setting = ev.CompilerSetting(name=BUDGET, value="0.4", default="1.0")
        peak = measured(15.0 if job.config.settings else 20.0)
        return [ev.CompilerState(torch="2.13.0", settings=(setting,)), partitioned(8), peak, *timed, ev.Finished()]

    state, _ = await played("memory", story, MemoryOptions((0.4, 0.2), switches=True))
    assert [result.change.name for result in state.results] == ["as it is", "activation_memory_budget=0.2"]
    assert "the file sets it itself" in printed("memory", state)
    assert not any("lowers the peak by" in line for line in json_of("memory", state)["conclusions"])


async def test_inference_has_no_budget():
    def story(job: ev.Job) -> list[ev.Event]:
        timed = [changed(1.0, 0.99, 1.01)] if job.config.settings else []
        return [SETTINGS, measured(5.0), *timed, ev.Finished()]

    state, player = await played("memory", story)
    assert len(player.jobs) == 1
    assert "Inference saves nothing for a backward" in printed("memory", state)


@pytest.mark.parametrize("columns", [16, 40, 97, 6, 3])
def test_the_lifetimes_are_true_at_every_width(columns: int):
    peak = eager_memory_peak(ev_snapshot(EAGER))
    assert peak is not None
    (addmm, mul) = groups(peak.tensors)
    assert addmm.module == "Model.layers.*"
    chart = bars(addmm.in_use(peak), columns, addmm.bytes)
    assert len(chart) == columns
    for column, cell in enumerate(chart):
        steps = range(column * 6 // columns, max((column + 1) * 6 // columns, column * 6 // columns + 1))
        most = max(4 * (step <= 4) + 4 * (1 <= step <= 3) for step in steps)
        assert cell == {0: "·", 4: "▄", 8: "█"}[most]
    at = peak_column(peak, columns)
    assert bars(peak.history, columns, peak.bytes)[at] == "█"
    assert chart[at] == "█"
    assert bars(mul.in_use(peak), columns, mul.bytes)[at] == "█"


@pytest.mark.parametrize("width", [80, 160])
def test_rows_of_lifetimes_end_at_the_same_column(width: int):
    peak = eager_memory_peak(ev_snapshot(EAGER))
    assert peak is not None
    rows = [row.text for row in lifetime_rows(peak, width, "op")]
    assert len({len(row) for row in rows[:4]}) == 1
    assert len(rows[0]) <= width
    assert "├ backward" in rows[0]
    # Half of the ops are the forward.
    left = rows[1].index("▃")
    assert abs((rows[0].index("├") - left) - (width - left) / 2) <= 2
    assert rows[-1].endswith("▲ peak 10.0 MiB")


def ev_snapshot(*events: ev.Event) -> Snapshot:
    return start_snapshot(JOB).apply_all([replace(event, run=JOB.run) for event in events])


def test_what_an_op_allocates_for_itself_has_its_name():
    changes = [
        AllocatorChange(1, 100, 1, "", False), AllocatorChange(2, 50, 2, "aten::convolution", False),
        AllocatorChange(3, 30, 3, "aten::convolution", False), AllocatorChange(4, -30, 3, "aten::convolution", False),
        AllocatorChange(5, -100, 1, "", False), AllocatorChange(6, 10, 3, "", False),
    ]  # fmt: skip
    total, allocations = in_use_at_peak(reversed(changes))
    assert total == 180
    assert [(one.bytes, one.op) for one in allocations] == [
        (100, ""), (50, "aten::convolution"), (30, "aten::convolution"),
    ]  # fmt: skip


MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(x))
        return x + self.down(h)
model = nn.Sequential(Block(), Block(), Block())
inputs = (torch.randn(512, 64),)
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_the_peak_is_named_and_a_budget_lowers_it(tmp_path: Path, shared_runs: SharedRuns):
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=MODEL, config=ev.Config(train=True), time_for=0.2)
    state: StudyState[MemoryOptions, MemoryRun] = StudyState(job, MemoryOptions((0.3,), switches=False), 120.0)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    base, lower = state.results
    assert base.run.failure is None
    assert base.run.memory is not None
    eager, compiled, named = eager_memory_peak(base.run), memory_peak(base.run), named_peak(base.run)
    assert eager is not None
    assert compiled is not None
    assert named is not None
    assert eager.bytes == pytest.approx(base.run.memory.eager_peak, rel=0.02)
    assert compiled.bytes == pytest.approx(base.peak, rel=0.02)
    assert named.share > 0.95
    gelu = [tensor for tensor in eager.tensors if tensor.op == "aten.gelu"]
    assert {(tensor.kind, tensor.location.line if tensor.location else 0) for tensor in gelu} == {("activation", 10)}
    assert gelu[0].module == "Sequential.0"
    assert setting_of(lower.run, BUDGET) == "0.3"
    assert lower.peak is not None
    assert base.peak is not None
    assert lower.peak < 0.9 * base.peak
    assert lower.predicted == pytest.approx(lower.peak, rel=0.05)
    assert lower.run.change_timing is not None
    assert lower.recomputed > base.recomputed


SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
step = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    step(torch.randn(512, 64)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_of_a_script_the_peak_of_a_captured_call_is_explained(tmp_path: Path, shared_runs: SharedRuns):
    job = ev.Job(run=1, file=str(tmp_path / "train.py"), source=SCRIPT, time_for=0.2)
    state: StudyState[MemoryOptions, MemoryRun] = StudyState(job, MemoryOptions((), switches=False), 120.0)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    (base,) = state.results
    named, eager = named_peak(base.run), eager_memory_peak(base.run)
    assert named is not None
    assert eager is not None
    assert named.share > 0.95
    assert any(tensor.kind == "activation" for tensor in eager.tensors)


WITH_BREAK = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(256, 1024)
        self.b = torch.nn.Linear(1024, 256)
        self.c = torch.nn.Linear(256, 2048)
        self.d = torch.nn.Linear(2048, 256)

    def forward(self, x):
        x = x + self.b(torch.sigmoid(self.a(x)))
        torch._dynamo.graph_break()
        return x + self.d(torch.sigmoid(self.c(x)))


model = Net()
inputs = (torch.randn(512, 256, requires_grad=True),)
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_the_backward_of_the_last_graph_is_the_first_one(tmp_path: Path, shared_runs: SharedRuns):
    config = ev.Config(train=True, threads=1)
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=WITH_BREAK, config=config, time_for=0.2)
    state: StudyState[MemoryOptions, MemoryRun] = StudyState(job, MemoryOptions((), switches=False), 120.0)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    (base,) = state.results
    named, peak = named_peak(base.run), memory_peak(base.run)
    assert named is not None
    assert peak is not None
    assert named.share > 0.98
    assert peak.bytes == pytest.approx(named.measured, rel=0.02)


def live(name: str, size: int = 512) -> LiveTensor:
    return LiveTensor(
        name=name, bytes=size, kind="temporary", op="aten.mul", location=None, module=None, born=0, dies=0, reason=""
    )


def test_a_tensor_that_the_allocator_does_not_hold_is_not_named():
    peak = MemoryPeak(
        bytes=1024, step=0, steps=1, forward_steps=1, phase="forward", kernel="k", tensors=(live("a"), live("b")),
        history=(1024,),
    )  # fmt: skip
    held = ev.PeakAllocations(bytes=2048, allocations=(ev.Allocation(512, ""), ev.Allocation(1536, "aten::mm")))
    named = name_allocations(held, peak.allocated, 4096)
    assert (named.tensors, named.scratch[0].bytes, named.share) == (512, 1536, 0.5)


def test_a_tensor_in_a_block_that_was_not_split_is_no_scratch_memory():
    """The figures are those of a convolutional network on an H200; its peak was 48,268,288 bytes."""
    image, block = 15_745_024, 16_777_216
    tensors = [live(name, image) for name in ("a", "b", "c")]
    requested = 3 * image + 256
    allocations = (
        *(ev.Allocation(size, "aten::convolution") for size in (image, image, block)),
        ev.Allocation(256, ""),
    )
    held = ev.PeakAllocations(bytes=48_268_288, allocations=allocations, requested=requested)
    named = name_allocations(held, tensors, 48_268_288)
    assert (named.tensors, named.scratch) == (3 * image, ())
    assert named.share == pytest.approx(1.0, abs=1e-4)
    workspace = (*allocations[:2], ev.Allocation(2 * block, "aten::convolution"))
    named = name_allocations(replace(held, allocations=workspace), tensors, 48_268_288)
    assert (named.tensors, [one.bytes for one in named.scratch]) == (2 * image, [2 * block])


def kernel(
    name: str, us: float, ops: tuple[str, ...], moved: int, phase: ev.GraphPhase = "forward", calls: int = 1
) -> tuple[ev.Kernel, ev.CallPart]:
    call = ev.KernelCall(order=0, ops=ops, bytes_read=moved, bytes_written=0)
    event = ev.Kernel(
        graph="0/0", phase=phase, name=name, language="cpp", source="", ops=ops, calls=(call,) * calls
    )  # fmt: skip
    part = ev.CallPart(kind="kernel", name=name, graph="0/0", phase=phase, us=us, low_us=us, high_us=us, launches=calls)
    return event, part


def test_the_predicted_time_adds_the_kernels_that_come_and_leaves_out_those_that_go():
    (gelu, gelu_us), (sin, sin_us) = kernel("a", 30.0, ("aten.gelu",), 300), kernel("b", 20.0, ("aten.sin",), 200)
    profile = ev.CallProfiled(total_us=100.0, repeats=3, parts=(gelu_us, sin_us))
    base = ev_snapshot(gelu, sin, profile)
    assert predicted_time_ratio(base, base) == pytest.approx(1.0)
    twice, _ = kernel("a", 0.0, ("aten.gelu",), 300, calls=2)
    # One kernel more that the program has, and one that it has not: 0.1 µs for each byte.
    other, _ = kernel("c", 0.0, ("aten.cos",), 50, phase="backward")
    assert predicted_time_ratio(base, ev_snapshot(twice, other)) == pytest.approx((100 + 30 + 5 - 20) / 100)
    assert predicted_time_ratio(ev_snapshot(gelu, sin), base) is None


def test_calls_that_both_make_cancel_in_the_predicted_time_though_the_profile_lacks_them():
    (gelu, gelu_us), (sin, _) = kernel("a", 30.0, ("aten.gelu",), 300), kernel("b", 20.0, ("aten.sin",), 200)
    base = ev_snapshot(gelu, sin, ev.CallProfiled(total_us=100.0, repeats=3, parts=(gelu_us,)))
    twice, _ = kernel("a", 0.0, ("aten.gelu",), 300, calls=2)
    assert predicted_time_ratio(base, ev_snapshot(twice, sin)) == pytest.approx(1.3)
