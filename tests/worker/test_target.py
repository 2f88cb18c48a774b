"""Code for an absent GPU is lowered and assembled in a real worker."""

from __future__ import annotations

import pytest

from tcexplore.events import (
    CallMade,
    DeviceQueried,
    Event,
    FactMissing,
    Failed,
    Finished,
    GraphCaptured,
    GuardsInstalled,
    Kernel,
    KernelAssembled,
    KernelNotAssembled,
    PairsMeasured,
    PhaseStarted,
    RooflinePoint,
    TargetLowered,
    TargetSkipped,
    TimingSkipped,
    Wrapper,
)
from tcexplore.events.commands import PauseTiming, Retarget
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

MODEL = """\
import torch
def model(x, y):
    if x.is_cuda:
        return x
    return torch.softmax(x @ y, -1)
inputs = (torch.randn(32, 64), torch.randn(64, 48, requires_grad=True))
"""


BOTH_SUMS = """\
import torch
def model(x):
    return x.sum(0), x.sum(1)
inputs = (torch.randn(4096, 2048),)
"""


async def test_a_reduction_of_rows_and_columns_at_once_has_its_nodes_and_bytes(runs: Runs) -> None:
    """torch does not report the call of such a kernel as it reports others."""
    events = await runs.run(BOTH_SUMS, backend="inductor", target="h100", threads=1)
    kernels = [kernel for kernel in only(events, Kernel) if kernel.target == "h100"]
    read = sum(kernel.bytes_read or 0 for kernel in kernels)
    assert sorted(name for kernel in kernels for name in kernel.scheduler_nodes)[0] == "op0"
    assert read == pytest.approx(4096 * 2048 * 4, rel=0.05), "the input once"
    assert {kernel.fusion for kernel in kernels} == {"reduction"}
    assert all(line.source for kernel in kernels for line in kernel.lines)


async def test_code_for_a_target_is_lowered_and_assembled_after_the_compile(runs: Runs) -> None:
    events = await runs.run(MODEL, backend="inductor", target="l4", assembly=True, threads=1)
    assert isinstance(events[-1], Finished), events[-1]
    kernels = {(k.target, k.language, k.phase) for k in only(events, Kernel)}
    # The call is made under no_grad, so neither side has a backward.
    assert kernels == {(t, lang, "forward") for t, lang in (
        ("native", "cpp"), ("native", "extern"), ("l4", "triton"), ("l4", "extern"))}  # fmt: skip
    assert {w.target for w in only(events, Wrapper)} == {"native", "l4"}
    assert [e.target for e in only(events, TargetLowered)] == ["l4"]
    assert not only(events, KernelNotAssembled)
    stages = {(a.target, tuple(s.name for s in a.stages)) for a in only(events, KernelAssembled)}
    assert stages == {("l4", ("ttir", "ttgir", "llir", "ptx", "sass")), ("native", ("assembly",))}
    assert {p.target for p in only(events, RooflinePoint)} == {"l4"}
    assert [a.attribute for a in only(events, DeviceQueried)] == ["is_cuda"]
    phases = [event.phase for event in only(events, PhaseStarted)]
    assert phases.index("dynamo") < phases.index("lowering") < phases.index("accuracy") < phases.index("assembling")
    compiled = next(n for n, e in enumerate(events) if isinstance(e, CallMade) and e.variant == "compiled")
    lowered = next(n for n, e in enumerate(events) if isinstance(e, Kernel) and e.target == "l4")
    assert compiled < lowered, "the measured compile does not include the target"


BROKEN_TARGETS = """
from tcexplore.worker.target_codegen import TargetCodegen
def fail(*args):
    raise ValueError("broken")
TargetCodegen.{method} = fail
"""


@pytest.mark.parametrize(("method", "fact"), [("_lower", TargetSkipped), ("finish", FactMissing)])
async def test_a_failure_in_code_for_a_target_does_not_fail_the_run(runs: Runs, method: str, fact: type[Event]) -> None:
    events = await runs.run(MODEL + BROKEN_TARGETS.format(method=method), backend="inductor", target="l4")
    assert isinstance(events[-1], Finished), events[-1]
    assert any(getattr(event, "reason", "").startswith("ValueError: broken") for event in only(events, fact))
    assert only(events, TimingSkipped)


async def test_retargeting_lowers_the_recorded_graphs_without_a_new_trace(runs: Runs) -> None:
    number = runs.submit(MODEL, backend="inductor", threads=1, time_for=None, retargetable=True)
    await runs.wait_for(PairsMeasured)
    assert runs.supervisor.send(PauseTiming(paused=True))
    before = len(runs.events)
    assert runs.supervisor.send(Retarget(target="l4"))
    await runs.until(lambda e: isinstance(e, KernelAssembled) and (e.run, e.target) == (number, "l4"))
    assert runs.supervisor.send(Retarget(target="l4")), "the second command generates nothing"
    assert runs.supervisor.send(Retarget(target="nothing.toml"))
    await runs.wait_for(TargetSkipped)
    runs.supervisor.stop_run()
    await runs.wait_for(Finished, Failed)
    runs.supervisor.send(PauseTiming(paused=False))
    run = [event for event in runs.events if event.run == number]
    after = [event for event in runs.events[before:] if event.run == number]
    assert len(only(run, GraphCaptured)) == 1
    assert not [e for e in after if isinstance(e, GraphCaptured | CallMade | GuardsInstalled)], "no new trace"
    assert not [e for e in only(after, PhaseStarted) if e.phase not in ("switching", "timing")]
    assert [e.target for e in only(run, TargetLowered)] == ["l4"]
    assert {k.language for k in only(after, Kernel)} == {"triton", "extern"}
    assert [e.target for e in only(run, TargetSkipped)] == ["nothing"]
