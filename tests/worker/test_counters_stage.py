"""Hardware counters where the machine does not count, and how launches are given to kernels."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tcexplore.events import FactMissing, Kernel
from tcexplore.events.inductor_events import KernelCall
from tcexplore.targets.hardware_counters import Launch
from tests.supervisor.runs import Runs

pytestmark = pytest.mark.torch

MODEL = "import torch\n\ndef model(x):\n    return x.sin() + 1\n\ninputs = (torch.randn(8),)\n"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_machine_without_a_gpu_costs_the_counters_only(runs: Runs):
    events = await runs.run(MODEL, time_for=0.0, counted_kernels=("triton_poi_fused_0",))
    (reason,) = [event.reason for event in events if isinstance(event, FactMissing) and "counters" in event.fact]
    assert "NVIDIA GPU" in reason


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "permits no user to read"),
        ("==ERROR== The application returned an error code (1).", "status 9: The application returned"),
    ],
)
def test_the_reason_of_nsight_compute_is_shown(tmp_path: Path, output: str, message: str):
    from tcexplore.worker.counters_stage import CountersError, _run

    tool = tmp_path / "ncu"
    tool.write_text(f"#!/bin/sh\necho '{output}'\nexit 9\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(CountersError, match=message.replace("(", r"\(")):
        _run([str(tool)])


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.worker import counters_stage

    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(counters_stage, "_FOLDERS", ())
    with pytest.raises(counters_stage.CountersError, match="ncu"):
        counters_stage._find_tool()


def launch(us: float) -> Launch:
    return Launch("triton_poi_fused_0", us, {}, ())


def kernel(graph: str, calls: int) -> Kernel:
    return Kernel(
        graph=graph, phase="forward", name="triton_poi_fused_0", language="triton", source="",
        calls=tuple(KernelCall(order=n) for n in range(calls)),
    )  # fmt: skip


def test_launches_of_one_name_belong_to_its_kernels_in_the_order_of_their_calls():
    from tcexplore.worker.counters_stage import _launch_of

    first, second = wanted = [kernel("0/0", 2), kernel("1/0", 1)]
    launches = [launch(1.0), launch(2.0), launch(3.0)]
    assert [_launch_of(one, wanted, launches) for one in (first, second)] == [launch(1.0), launch(3.0)]


def test_another_number_of_launches_than_calls_belongs_to_no_kernel():
    from tcexplore.worker.counters_stage import _launch_of

    wanted = [kernel("0/0", 2)]
    assert _launch_of(wanted[0], wanted, [launch(1.0)]) is None
