"""Where the time of a call goes on a device, read off recorded profiles of a real one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tcexplore.capture.inductor.call_parts import PROFILER, parts_of
from tcexplore.capture.inductor.device_work import busy, gaps, works
from tcexplore.capture.inductor.kernel_times import kernel_times, launched_as
from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, Seen, faster_half, seen
from tcexplore.events import CallProfiled, Kernel, KernelTimed
from tests.capture import profiles


def timed(case: str) -> dict[tuple[str, str, str], KernelTimed]:
    found = profiles.seen(case)
    return {(t.graph, t.phase, t.kernel): t for t in kernel_times(found, works(found), profiles.kernels(case))}


def profiled(case: str) -> CallProfiled:
    found = profiles.seen(case)
    names = frozenset(name for kernel in profiles.kernels(case) for name in launched_as(kernel))
    return parts_of(found, works(found), names)


@pytest.mark.parametrize("case", ["default", "replayed", "training", "training_replayed", "parts", "two_replayed"])
def test_the_parts_of_the_host_add_up_and_the_device_is_told_apart(case: str):
    call = profiled(case)
    assert sum(part.us for part in call.parts if part.kind != "device") == pytest.approx(call.total_us)
    assert call.busy_us is not None
    assert call.gaps_us is not None
    assert 0 < call.busy_us + call.gaps_us < call.total_us, "the device works and waits within the call"
    assert sum(part.us for part in call.parts if part.kind == "device") / call.busy_us == pytest.approx(1, rel=0.01)
    assert {"guards", "wrapper", "dispatch", "waiting"} <= {part.kind for part in call.parts}


def test_every_kernel_has_its_own_time_and_a_library_call_the_sum_of_what_it_launched():
    known = timed("default")
    assert {name for _, _, name in known} == {kernel.name for kernel in profiles.kernels("default")}
    product = known["0/0", "forward", "extern_kernels.addmm"]
    assert len(product.functions) == 4
    assert product.us == pytest.approx(15.3, abs=1)
    assert (product.device, product.replayed, product.count) == ("cuda", False, 1)
    call = profiled("default")
    assert (call.works, call.launches, call.replays) == (7, 7, 0)
    assert sum(one.us for one in known.values()) == pytest.approx(call.busy_us, rel=0.05)


def test_what_a_cuda_graph_replays_is_known_again_by_its_place():
    known = timed("replayed")
    assert {name for _, _, name in known} == {kernel.name for kernel in profiles.kernels("replayed")}
    assert all(one.replayed for one in known.values())
    call = profiled("replayed")
    assert (call.works, call.launches, call.replays, call.replayed) == (8, 2, 1, 7)


def test_two_neighbours_of_a_library_that_a_graph_replays_are_not_guessed_apart():
    known = timed("training_replayed")
    backward = {name for _, phase, name in known if phase == "backward"}
    assert {"triton_per_fused_sum_0", "extern_kernels.mm:3"} <= backward
    assert backward.isdisjoint({"extern_kernels.mm", "extern_kernels.mm:2"})
    assert {graph for graph, _, _ in timed("two_replayed")} == {"0/0", "1/0"}


def test_the_backward_runs_in_a_thread_of_its_own_and_is_part_of_the_call():
    known = timed("training")
    assert {name for _, _, name in known} == {kernel.name for kernel in profiles.kernels("training")}
    parts = {(part.kind, part.graph) for part in profiled("training").parts}
    assert ("extern", "0/0 backward") in parts
    assert ("kernel", "0/0 backward") in parts
    assert ("outside", "") in parts


def test_a_kernel_of_the_host_between_two_replays_has_the_hosts_time():
    known = timed("parts")
    devices = {name: (one.device, one.replayed) for (_, _, name), one in known.items()}
    assert devices == {
        "triton_poi_fused__to_copy_add_sin_0": ("cuda", True),
        "cpp_fused__to_copy_add_cos_1": ("cpu", False),
        "triton_poi_fused_add_mul_sin_2": ("cuda", True),
    }
    assert profiled("parts").replays == 2


def test_a_kernel_that_the_person_wrote_is_launched_by_its_functions_name():
    kernel = Kernel(
        graph="0/0", phase="forward", name="mine_0", language="triton", source="@triton.jit\ndef mine(x):\n    pass\n"
    )
    assert launched_as(kernel) == {"mine_0", "mine"}


def event(name: str, start: float, end: float, parent: object = None, **more: object) -> SimpleNamespace:
    facts = {"device_type": "DeviceType.CPU", "id": 1, "is_user_annotation": False, **more}
    return SimpleNamespace(name=name, time_range=SimpleNamespace(start=start, end=end), cpu_parent=parent, **facts)


def test_marks_on_the_devices_time_line_are_no_work_and_other_threads_belong_to_the_call():
    call = event(CALL, 0, 100)
    device = {"device_type": "DeviceType.CUDA"}
    found = seen(
        [
            call,
            event("aten::add", 10, 20, call),
            event("the user's mark", 30, 60, is_user_annotation=True, **device),
            event(GRAPH + "0/0 forward", 30, 60, **device),
            event("k", 40, 50, **device),
            event("autograd::engine::evaluate_function: MulBackward0", 50, 90),
            event("elsewhere", 150, 190),
        ]
    )
    assert [(one.name, one.host) for one in found if not one.host] == [("k", False)]
    assert [child.name for child in found[0].children] == [
        "aten::add",
        "autograd::engine::evaluate_function: MulBackward0",
    ]


def test_the_profilers_own_work_is_no_part_of_a_call():
    call, graph = Seen(CALL, True, 1, 0, 100), Seen(GRAPH + "0/0 forward", True, 2, 10, 90)
    kernel, own = Seen(KERNEL + "cpp_fused_0", True, 3, 20, 30), Seen(PROFILER, True, 4, 40, 80)
    for parent, child in ((call, graph), (graph, kernel), (graph, own)):
        child.parent = parent
        parent.children.append(child)
    found = parts_of([call, graph, kernel, own], [], frozenset())
    assert found.total_us == 60
    assert {(part.kind, part.name, part.graph): part.us for part in found.parts} == {
        ("python", "", ""): 20,
        ("wrapper", "", ""): 30,
        ("kernel", "cpp_fused_0", "0/0 forward"): 10,
    }
    assert found.busy_us is None


def test_overlapping_work_is_not_counted_twice():
    found = [Seen(CALL, True, 1, 0, 100), *(Seen("k", False, 9, *span) for span in ((10, 30), (20, 40), (60, 70)))]
    work = works(found)
    assert (busy(work), gaps(work)) == (40, 20)
    assert gaps([]) == 0


def test_of_the_calls_only_the_faster_half_counts_with_all_that_was_done_in_them():
    def call(start: float, us: float) -> list[Seen]:
        whole = Seen(CALL, True, 0, start, start + us)
        inside = Seen("aten::add", True, 0, start, start + us / 2, parent=whole)
        whole.children.append(inside)
        return [whole, inside]

    calls = [call(100.0 * number, us) for number, us in enumerate((5.0, 70.0, 4.0, 6.0, 90.0))]
    kept = faster_half([event for one in calls for event in one])
    assert kept == [event for number in (0, 2, 3) for event in calls[number]]
    assert faster_half(calls[0]) == calls[0]
    found = parts_of(kept, [], frozenset())
    assert (found.times, found.total_us) == (3, pytest.approx(5.0))
