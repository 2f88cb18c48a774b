"""Code for several targets in one run, and the target in view."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.session.snapshot import Snapshot, start_snapshot
from tcexplore.targets.target_names import NATIVE


def kernel(name: str, target: str) -> ev.Kernel:
    return ev.Kernel(run=1, graph="0/0", phase="forward", name=name, language="triton", source="", target=target)


def run(target: str) -> Snapshot:
    snapshot = start_snapshot(ev.Job(run=1, file="/m.py", source="", config=ev.Config(target=target)))
    of: dict[str, Any] = {"graph": "0/0", "phase": "forward", "kernel": "k"}
    for event in (
        kernel("here", NATIVE), kernel("k", "l4"),
        ev.KernelAssembled(run=1, target="l4", config="", stages=(ev.KernelStage("ptx", "ret;"),), **of),
        ev.KernelNotAssembled(run=1, target="h100", reason="no", **of), kernel("k", "h100"),
        ev.DeviceQueried(run=1, graph="0/0", attribute="is_cuda"),
    ):  # fmt: skip
        snapshot = snapshot.apply(event)
    return snapshot


def test_the_target_of_the_run_is_in_view_and_other_code_is_kept():
    snapshot = run("/home/me/l4.toml")
    assert [k.name for k in snapshot.code.kernels] == ["k"]
    assert {code.target for code in snapshot.other_codes} == {NATIVE, "h100"}
    made, failed, point = kernel_facts(snapshot.code, snapshot.code.kernels[0])
    assert made is not None
    assert (failed, point) == (None, None)


def test_the_target_in_view_changes_and_changes_back():
    snapshot = run("l4")
    retargeted = snapshot.with_target("h100")
    assert [k.target for k in retargeted.code.kernels] == ["h100"]
    assert kernel_facts(retargeted.code, retargeted.code.kernels[0]).not_assembled is not None
    assert retargeted.with_target("l4").code.kernels is snapshot.code.kernels
    assert retargeted.code_for(NATIVE).kernels == snapshot.with_target(NATIVE).code.kernels == (kernel("here", NATIVE),)
    assert not snapshot.with_target("mi300x").code.kernels
    assert retargeted.device_queries == snapshot.device_queries != ()


def test_a_late_event_belongs_to_the_code_of_its_target():
    retargeted = run("l4").with_target("h100").apply(kernel("late", "l4"))
    assert [k.name for k in retargeted.code.kernels] == ["k"]
    assert [k.name for k in retargeted.with_target("l4").code.kernels] == ["k", "late"]
