"""Code for several devices in one run, and which of them is in view."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.session.code import NATIVE
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.session.snapshot import Snapshot, start_snapshot


def kernel(name: str, target: str) -> ev.Kernel:
    return ev.Kernel(run=1, graph="0/0", phase="forward", name=name, language="triton", source="", target=target)


def run(target: str) -> Snapshot:
    snapshot = start_snapshot(ev.Job(run=1, file="/m.py", source="", config=ev.Config(target=target)))
    of = {"graph": "0/0", "phase": "forward", "kernel": "k"}
    for event in (
        kernel("here", NATIVE), kernel("k", "l4"),
        ev.KernelAssembled(run=1, target="l4", config="", stages=(ev.KernelStage("ptx", "ret;"),), **of),
        ev.KernelNotAssembled(run=1, target="h100", reason="no", **of), kernel("k", "h100"),
        ev.DeviceQueried(run=1, graph="0/0", attribute="is_cuda"),
    ):  # fmt: skip
        snapshot = snapshot.apply(event)
    return snapshot


def test_the_runs_own_target_is_in_view_and_the_others_are_kept():
    snapshot = run("/home/me/l4.toml")
    assert [k.name for k in snapshot.code.kernels] == ["k"]
    assert {code.target for code in snapshot.other_codes} == {NATIVE, "h100"}
    made, failed, point = kernel_facts(snapshot.code, snapshot.code.kernels[0])
    assert made is not None
    assert (failed, point) == (None, None)


def test_another_device_comes_into_view_and_the_first_one_back():
    snapshot = run("l4")
    there = snapshot.with_target("h100")
    assert [k.target for k in there.code.kernels] == ["h100"]
    assert kernel_facts(there.code, there.code.kernels[0]).not_assembled is not None
    assert there.with_target("l4").code.kernels is snapshot.code.kernels
    assert there.code_for(NATIVE).kernels == snapshot.with_target(NATIVE).code.kernels == (kernel("here", NATIVE),)
    assert not snapshot.with_target("mi300x").code.kernels
    assert there.device_queries == snapshot.device_queries != ()


def test_what_arrives_later_goes_where_it_belongs():
    there = run("l4").with_target("h100").apply(kernel("late", "l4"))
    assert [k.name for k in there.code.kernels] == ["k"]
    assert [k.name for k in there.with_target("l4").code.kernels] == ["k", "late"]
