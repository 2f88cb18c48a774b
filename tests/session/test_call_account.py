"""One account of a call: parts that add up to the timed call, scaled where the machine ran at another speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tcexplore import events as ev
from tcexplore.events.result_events import PartKind
from tcexplore.session import Snapshot
from tcexplore.session.call_account import CallAccount, call_account, eager_ops
from tests.snapshots.estimates import ESTIMATE

TIMING = replace(ESTIMATE, compiled_us=100.0, calls=1)


def part(kind: PartKind, us: float, name: str = "k", device: Literal["cpu", "cuda"] = "cpu") -> ev.CallPart:
    return ev.CallPart(kind=kind, name=name, us=us, low_us=0.5 * us, high_us=2 * us, device=device)


def host(*parts: ev.CallPart) -> ev.CallProfiled:
    return ev.CallProfiled(total_us=sum(part.us for part in parts), repeats=5, parts=parts)


def device(busy_us: float, *parts: ev.CallPart) -> ev.CallProfiled:
    return ev.CallProfiled(total_us=300.0, repeats=5, parts=parts, device_busy_us=busy_us)


def account(profile: ev.CallProfiled, timing: ev.TimingEstimate | None = TIMING) -> CallAccount:
    known = call_account(profile, timing)
    assert known is not None
    assert sum(part.us for part in known.parts) + known.rest_us == pytest.approx(known.total_us)
    assert all(part.low_us <= part.us * 1.000001 and part.us <= part.high_us * 1.000001 for part in known.parts)
    return known


def test_parts_of_a_call_at_the_speed_of_the_timing_are_no_estimates():
    known = account(host(part("kernel", 80.0), part("guards", 15.0)))
    assert (known.total_us, known.rest_us, known.estimated) == (100.0, 0.0, False)
    assert known.us("kernel") == pytest.approx(80 * 100 / 95)


def test_parts_at_another_speed_are_scaled_marked_and_have_wider_ends():
    known = account(host(part("kernel", 300.0), part("guards", 100.0)))
    assert known.estimated
    assert known.us("kernel") == pytest.approx(75.0)
    (kernel,) = (part for part in known.parts if part.kind == "kernel")
    assert (kernel.low_us, kernel.high_us) == (37.5, 600.0)


def test_a_later_estimate_scales_the_account_again():
    snapshot = Snapshot(run=1, file="/m.py", source="", config=ev.Config())
    for event in (TIMING, host(part("kernel", 100.0)), replace(TIMING, compiled_us=50.0)):
        snapshot = snapshot.apply(replace(event, run=1))
    assert snapshot.call_account is not None
    assert [part.us for part in snapshot.call_account.parts] == [50.0]


def test_parts_are_those_of_one_call_of_a_unit():
    known = account(host(part("kernel", 150.0), part("Python", 50.0)), replace(TIMING, calls=2))
    assert (known.us("kernel"), known.estimated) == (75.0, False)


def test_the_work_of_a_device_keeps_its_time_and_the_rest_is_idle():
    known = account(device(40.0, part("kernel", 40.0, device="cuda"), part("guards", 10.0)))
    assert [(part.kind, part.us) for part in known.parts] == [("idle", 50.0), ("kernel", 40.0), ("guards", 10.0)]
    assert not known.estimated


def test_guards_take_no_more_than_the_idle_time_of_the_device():
    known = account(device(95.0, part("kernel", 95.0, device="cuda"), part("guards", 10.0)))
    assert known.us("guards") == pytest.approx(5.0)
    assert known.us("idle") == 0


def test_overlapping_work_of_a_device_leaves_a_negative_rest():
    known = account(device(60.0, part("kernel", 50.0, device="cuda"), part("library", 30.0, device="cuda")))
    assert known.rest_us == pytest.approx(-20.0)


def test_work_of_a_device_that_exceeds_the_call_is_scaled_and_marked():
    known = account(device(200.0, part("kernel", 200.0, device="cuda")))
    assert (known.us("kernel"), known.estimated) == (100.0, True)


def test_without_a_timing_the_account_is_of_the_profiled_call():
    known = account(host(part("kernel", 80.0), part("eager op", 20.0, "aten.exp")), None)
    assert (known.total_us, known.estimated) == (100.0, False)
    assert eager_ops(known) == (("aten.exp", 1, 20.0),)
    assert eager_ops(None) is None
    assert call_account(None, TIMING) is None


def test_launches_are_scaled_like_the_part_that_they_belong_to():
    kernel = replace(part("kernel", 80.0), launch_us=40.0)
    known = account(host(kernel, part("launch", 80.0, "wrapper"), part("guards", 40.0)))
    assert {part.kind: part.launch_us for part in known.parts}["kernel"] == pytest.approx(20.0)
    assert known.launch_part == "launch"


def test_on_a_device_launches_are_a_share_of_the_idle_time():
    kernel = replace(part("kernel", 40.0, device="cuda"), launch_us=130.0)
    known = account(device(40.0, kernel, part("guards", 10.0)))
    (of_kernel,) = (part for part in known.parts if part.kind == "kernel")
    assert of_kernel.launch_us == pytest.approx(130.0 * 50.0 / 260.0), "the device was idle for 260 µs of the profile"
    assert known.launch_part == "idle"
