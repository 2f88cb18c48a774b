"""The profile of one call with a real compiler."""

from __future__ import annotations

import pytest

from tcexplore.documents.timing.call_profile_rows import profile_lines, summarize_profile
from tcexplore.events import CallProfiled, Kernel, KernelTimed
from tests.supervisor.runs import Runs
from tests.worker.test_run import MLP, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]


async def test_the_parts_of_a_call_add_up_and_include_every_kernel(runs: Runs) -> None:
    events = await runs.run(MLP, backend="inductor")
    (profile,) = only(events, CallProfiled)
    host = [part for part in profile.parts if part.kind != "device"]
    assert sum(part.us for part in host) == pytest.approx(profile.total_us, rel=0.01)
    generated = {kernel.name for kernel in only(events, Kernel) if kernel.language != "extern"}
    assert {part.name for part in host if part.kind == "kernel"} == generated
    assert [part.name for part in host if part.kind == "extern"] == ["aten.addmm"]
    assert {"guards", "wrapper", "dispatch"} <= {part.kind for part in host}
    times = only(events, KernelTimed)
    assert {timed.kernel for timed in times} == {kernel.name for kernel in only(events, Kernel)}
    assert {(timed.device, timed.replayed) for timed in times} == {("cpu", False)}
    assert (profile.device_busy_us, profile.replays) == (None, 0)
    assert summarize_profile(profile).startswith("one profiled call: ")
    assert len(list(profile_lines(profile))) == len(host)
