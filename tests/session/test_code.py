"""Code for several devices in one run, and which of them is in view."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.session.code import NATIVE
from tcexplore.session.kernel_facts import machine
from tcexplore.session.snapshot import Snapshot, begun


def kernel(name: str, target: str) -> ev.Kernel:
    return ev.Kernel(run=1, graph="0/0", phase="forward", name=name, language="triton", source="", target=target)


def run(target: str) -> Snapshot:
    snapshot = begun(ev.Job(run=1, file="/m.py", source="", config=ev.Config(target=target)))
    of = {"graph": "0/0", "phase": "forward", "kernel": "k"}
    for event in (
        kernel("here", NATIVE), kernel("k", "l4"),
        ev.KernelAssembled(run=1, target="l4", config="", stages=(ev.Stage("ptx", "ret;"),), **of),
        ev.KernelNotAssembled(run=1, target="h100", reason="no", **of), kernel("k", "h100"),
        ev.DeviceAsked(run=1, graph="0/0", attribute="is_cuda"),
    ):  # fmt: skip
        snapshot = snapshot.apply(event)
    return snapshot


def test_the_runs_own_target_is_in_view_and_the_others_are_kept():
    snapshot = run("/home/me/l4.toml")
    assert [k.name for k in snapshot.code.kernels] == ["k"]
    assert {code.target for code in snapshot.other_codes} == {NATIVE, "h100"}
    made, failed, point = machine(snapshot.code, snapshot.code.kernels[0])
    assert made is not None
    assert (failed, point) == (None, None)


def test_another_device_comes_into_view_and_the_first_one_back():
    snapshot = run("l4")
    there = snapshot.on("h100")
    assert [k.target for k in there.code.kernels] == ["h100"]
    assert machine(there.code, there.code.kernels[0]).failed is not None
    assert there.on("l4").code.kernels is snapshot.code.kernels
    assert there.code_for(NATIVE).kernels == snapshot.on(NATIVE).code.kernels == (kernel("here", NATIVE),)
    assert not snapshot.on("mi300x").code.kernels
    assert there.asked == snapshot.asked != ()


def test_what_arrives_later_goes_where_it_belongs():
    there = run("l4").on("h100").apply(kernel("late", "l4"))
    assert [k.name for k in there.code.kernels] == ["k"]
    assert [k.name for k in there.on("l4").code.kernels] == ["k", "late"]
