"""Parts of a call and times of its kernels, from recorded profiles of an H200."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tcexplore.capture.inductor.call_parts import (
    INPUTS_COPIED,
    MARKS,
    PROFILER,
    Round,
    call_parts,
    graph_tasks,
    launch_names,
)
from tcexplore.capture.inductor.profiler_tree import (
    CALIBRATION,
    CALL,
    GRAPH,
    KERNEL,
    ProfilerEvent,
    busy_us,
    calls_near,
    device_work,
    faster_half,
    gaps_us,
    host_tree,
    profiler_tree,
)
from tcexplore.events import CallPart, CallProfiled, Kernel, KernelCall
from tests.capture import recorded_profiles


def profiled(case: str) -> CallProfiled:
    return call_parts([Round(recorded_profiles.events_of_call(case))], recorded_profiles.kernels(case))


def timed(case: str) -> dict[tuple[str, str, str], CallPart]:
    parts = (part for part in profiled(case).parts if part.kind == "kernel")
    return {(part.graph, part.phase, part.name): part for part in parts}


@pytest.mark.parametrize("case", ["default", "replayed", "training", "training_replayed", "parts", "two_replayed"])
def test_parts_of_the_device_add_up_to_its_busy_time(case: str):
    call = profiled(case)
    assert call.device_busy_us is not None
    assert call.launch_gaps_us is not None
    assert 0 < call.device_busy_us + call.launch_gaps_us < call.total_us, "busy time and gaps are within the call"
    on_device = sum(part.us for part in call.parts if part.device == "cuda")
    assert on_device / call.device_busy_us == pytest.approx(1, rel=0.01)
    on_host = {part.kind for part in call.parts if part.device == "cpu"}
    assert "guards" in on_host
    assert on_host <= {"guards", "kernel", "eager op"}


def test_kernels_have_their_time_and_library_calls_the_sum_of_their_launches():
    times = timed("default")
    assert {name for _, _, name in times} == {kernel.name for kernel in recorded_profiles.kernels("default")}
    product = times["0/0", "forward", "extern_kernels.addmm"]
    assert len(product.functions) == 4
    assert product.us == pytest.approx(15.3, abs=1)
    assert (product.device, product.replayed, product.launches) == ("cuda", False, 1)
    call = profiled("default")
    assert (call.device_tasks, call.launches, call.replays) == (7, 7, 0)
    assert sum(one.us for one in times.values()) == pytest.approx(call.device_busy_us, rel=0.05)


def test_replayed_kernels_are_recognized_by_their_position():
    times = timed("replayed")
    assert {name for _, _, name in times} == {kernel.name for kernel in recorded_profiles.kernels("replayed")}
    assert all(one.replayed for one in times.values())
    call = profiled("replayed")
    assert (call.device_tasks, call.launches, call.replays, call.replayed_tasks) == (8, 2, 1, 7)


def test_adjacent_replayed_library_calls_are_not_told_apart():
    times = timed("training_replayed")
    backward = {name for _, phase, name in times if phase == "backward"}
    assert {"triton_per_fused_sum_0", "extern_kernels.mm:3"} <= backward
    assert backward.isdisjoint({"extern_kernels.mm", "extern_kernels.mm:2"})
    library = {(part.kind, part.graph, part.phase) for part in profiled("training_replayed").parts}
    assert ("library", "0/0", "backward") in library
    assert {graph for graph, _, _ in timed("two_replayed")} == {"0/0", "1/0"}


def test_replayed_library_calls_are_those_of_the_code_without_a_cuda_graph():
    case = "training_replayed"
    tasks = graph_tasks(recorded_profiles.events_of_call("training"), recorded_profiles.kernels("training"))
    call = call_parts([Round(recorded_profiles.events_of_call(case))], recorded_profiles.kernels(case), tasks=tasks)
    kernels = {(part.graph, part.phase, part.name): part for part in call.parts if part.kind == "kernel"}
    assert {name for _, _, name in kernels} == {kernel.name for kernel in recorded_profiles.kernels(case)}
    assert {part.launches for part in kernels.values()} == {1}
    assert all(part.replayed for part in kernels.values())
    rest = {part.name for part in call.parts if part.kind == "library"}
    assert rest == {INPUTS_COPIED}, "only they are no call of the code"


def test_the_backward_in_another_thread_is_part_of_the_call():
    times = timed("training")
    assert {name for _, _, name in times} == {kernel.name for kernel in recorded_profiles.kernels("training")}
    assert {phase for _, phase, _ in times} == {"forward", "backward"}
    assert "eager op" in {part.kind for part in profiled("training").parts}


def test_a_cpp_kernel_between_two_replays_has_the_hosts_time():
    times = timed("parts")
    devices = {name: (one.device, one.replayed) for (_, _, name), one in times.items()}
    assert devices == {
        "triton_poi_fused__to_copy_add_sin_0": ("cuda", True),
        "cpp_fused__to_copy_add_cos_1": ("cpu", False),
        "triton_poi_fused_add_mul_sin_2": ("cuda", True),
    }
    assert profiled("parts").replays == 2


def test_a_user_triton_kernel_is_launched_under_its_function_name():
    kernel = Kernel(
        graph="0/0", phase="forward", name="mine_0", language="triton", source="@triton.jit\ndef mine(x):\n    pass\n"
    )
    assert launch_names(kernel) == {"mine_0", "mine"}


def event(name: str, start: float, end: float, parent: object = None, **more: object) -> SimpleNamespace:
    facts = {"device_type": "DeviceType.CPU", "id": 1, "is_user_annotation": False, **more}
    return SimpleNamespace(name=name, time_range=SimpleNamespace(start=start, end=end), cpu_parent=parent, **facts)


def test_device_marks_are_not_work_and_other_threads_belong_to_the_call():
    call = event(CALL, 0, 100)
    device = {"device_type": "DeviceType.CUDA"}
    tree = profiler_tree(
        [
            call,
            event("aten::add", 10, 20, call),
            event("mark of the user", 30, 60, is_user_annotation=True, **device),
            event(GRAPH + "0/0 forward", 30, 60, **device),
            event("k", 40, 50, **device),
            event("autograd::engine::evaluate_function: MulBackward0", 50, 90),
            event("elsewhere", 150, 190),
        ]
    )
    assert [(one.name, one.host) for one in tree if not one.host] == [("k", False)]
    assert [child.name for child in tree[0].children] == [
        "aten::add",
        "autograd::engine::evaluate_function: MulBackward0",
    ]


@pytest.mark.torch
def test_a_host_profile_is_the_tree_that_torch_makes_of_it():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with torch.autograd.profiler.profile() as profiler, torch.autograd.profiler.record_function(CALL):
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    kineto = profiler.kineto_results

    def facts(event: ProfilerEvent) -> tuple[object, ...]:
        parent = event.parent
        children = [child.name for child in event.children]
        return event.name, event.start, event.end, event.host, event.id, parent.name if parent else None, children

    tree = [*map(facts, host_tree(kineto.events(), kineto.trace_start_ns()))]
    assert len(tree) > 20
    assert {parent for *_, parent, _ in tree} > {None, CALL, "aten::linear"}
    assert tree == [*map(facts, profiler_tree(profiler.function_events))]


def test_an_event_that_ends_in_another_thread_contains_nothing_and_belongs_to_the_call():
    def kineto(name: str, start: int, end: int, *, is_async: bool = False) -> SimpleNamespace:
        facts = {"name": name, "start_ns": start, "end_ns": end, "is_async": is_async, "is_hidden_event": False,
                 "start_thread_id": 2 if is_async else 1, "end_thread_id": 1, "correlation_id": start}  # fmt: skip
        return SimpleNamespace(**{key: lambda value=value: value for key, value in facts.items()})

    events = [kineto(CALL, 1000, 9000), kineto("gloo:all_reduce", 2000, 8000, is_async=True),
              kineto("aten::add", 3000, 4000), kineto("aten::is_leaf", 5000, 5100)]  # fmt: skip
    tree = host_tree(events, 1000)
    assert [(event.name, event.start, event.end, event.parent and event.parent.name) for event in tree] == [
        (CALL, 0.0, 8.0, None), ("gloo:all_reduce", 1.0, 7.0, CALL), ("aten::add", 2.0, 3.0, CALL),
    ]  # fmt: skip


def test_the_profilers_own_work_is_not_part_of_a_call():
    call, graph = ProfilerEvent(CALL, True, 1, 0, 100), ProfilerEvent(GRAPH + "0/0 forward", True, 2, 10, 90)
    kernel, profiler = ProfilerEvent(KERNEL + "cpp_fused_0", True, 3, 20, 30), ProfilerEvent(PROFILER, True, 4, 40, 80)
    for parent, child in ((call, graph), (graph, kernel), (graph, profiler)):
        child.parent = parent
        parent.children.append(child)
    profile = call_parts([Round([call, graph, kernel, profiler])], ())
    assert profile.total_us == 60
    assert {(part.kind, part.name, part.graph): pytest.approx(part.us) for part in profile.parts} == {
        ("Python", "", ""): 20,
        ("launch", "wrapper", ""): 30,
        ("kernel", "cpp_fused_0", "0/0"): 10,
    }
    assert profile.device_busy_us is None


def tree_of(*spans: tuple[str, int, int, str]) -> list[ProfilerEvent]:
    """Return events with name, start, end and the name of their parent."""
    events: dict[str, ProfilerEvent] = {}
    for number, (name, start, end, parent) in enumerate(spans):
        events[name] = ProfilerEvent(name, True, number, start, end)
        if parent:
            events[name].parent = events[parent]
            events[parent].children.append(events[name])
    return list(events.values())


def test_a_kernel_has_the_time_of_the_wrapper_before_it():
    graph = GRAPH + "0/0 forward"
    profile = call_parts(
        [Round(tree_of(
            (CALL, 0, 300, ""),
            (graph, 20, 260, CALL),
            (KERNEL + "cpp_fused_0", 100, 110, graph),
            (KERNEL + "cpp_fused_1", 130, 150, graph),
            ("aten::empty", 160, 165, graph),
            (KERNEL + "cpp_fused_2", 195, 200, graph),
        ))], (),
    )  # fmt: skip
    launches = {part.name: part.launch_us for part in profile.parts if part.launch_us}
    assert launches == {"cpp_fused_0": 20, "cpp_fused_1": 20, "cpp_fused_2": 30}, "the first 80 µs also check inputs"
    wrapper = next(part for part in profile.parts if part.name == "wrapper")
    assert wrapper.us == 240 - 40
    assert wrapper.us > sum(launches.values())


def part_kernel(name: str, order: int, language: str = "extern", nodes: tuple[str, ...] = ()) -> Kernel:
    """Return a kernel of graph 0/0, called once."""
    call = KernelCall(order=order, nodes=nodes)
    return Kernel(graph="0/0", phase="forward", name=name, language=language, source="", calls=(call,))


def test_each_part_of_a_split_graph_has_its_own_library_calls():
    first, second = GRAPH + "0/0 forward", GRAPH + "0/0 forward #1"
    kernels = [
        part_kernel("extern_kernels.mm", 0), part_kernel("cpp_fused_0", 1, "cpp"),
        part_kernel("cpp_fused_0:2", 0, "cpp"), part_kernel("extern_kernels.mm:2", 1),
    ]  # fmt: skip
    events = [
        *tree_of(
            (CALL, 0, 100, ""), (first, 0, 40, CALL), ("aten::mm", 0, 20, first),
            (KERNEL + "cpp_fused_0", 20, 25, first),
        ),
        *tree_of((second, 40, 100, ""), (KERNEL + "cpp_fused_0", 45, 52, second), ("aten::mm", 60, 90, second)),
    ]  # fmt: skip
    call, run = events[0], next(event for event in events if event.name == second)
    run.parent = call
    call.children.append(run)
    parts = {part.name: part.us for part in call_parts([Round(events)], kernels).parts if part.kind == "kernel"}
    assert parts == {
        "extern_kernels.mm": 20,
        "extern_kernels.mm:2": 30,
        "cpp_fused_0": 5,
        "cpp_fused_0:2": 7,
    }


@pytest.mark.parametrize("between", [0, 1])
def test_a_subgraph_that_is_called_again_has_its_library_calls(between: int):
    """A graph calls a subgraph three times; `between` the calls it may launch a kernel of its own."""
    kernels = [
        part_kernel("cpp_fused_0", 0, "cpp", ("body.sin",)),
        part_kernel("extern_kernels.mm", 1, nodes=("body.mm",)),
        *(part_kernel(f"cpp_fused_{2 + number}", 2 + number, "cpp") for number in range(2 * between)),
        part_kernel("extern_kernels.addmm", 4),
        part_kernel("cpp_fused_1", 5, "cpp"),
    ]
    graph, begins = GRAPH + "0/0 forward", iter(range(10, 200, 10))
    names = []
    for number in range(3):
        names += [KERNEL + "cpp_fused_0", "aten::mm"]
        names += [f"{KERNEL}cpp_fused_{2 + number}"] if between and number < 2 else []
    names += ["aten::addmm", KERNEL + "cpp_fused_1"]
    calls = [(name, start := next(begins), start + 8, graph) for name in names]
    events = tree_of((CALL, 0, 200, ""), (graph, 0, 200, CALL), *calls)
    parts = [part for part in call_parts([Round(events)], kernels).parts if part.kind in ("kernel", "library")]
    assert all(part.kind == "kernel" for part in parts)
    assert {part.name: part.launches for part in parts if "mm" in part.name} == {
        "extern_kernels.mm": 3,
        "extern_kernels.addmm": 1,
    }


def test_a_kernel_of_the_device_has_the_wait_before_it():
    for part in timed("default").values():
        assert part.launch_us >= 0
    waits = sum(part.launch_us for part in timed("default").values())
    call = profiled("default")
    assert call.launch_gaps_us is not None
    assert call.launch_gaps_us <= waits <= call.total_us - (call.device_busy_us or 0)


def test_overlapping_work_is_not_counted_twice():
    events = [
        ProfilerEvent(CALL, True, 1, 0, 100),
        *(ProfilerEvent("k", False, 9, *span) for span in ((10, 30), (20, 40), (60, 70))),
    ]
    work = device_work(events)
    assert (busy_us(work), gaps_us(work)) == (40, 20)
    assert gaps_us([]) == 0


def one_call(start: float, us: float) -> list[ProfilerEvent]:
    whole = ProfilerEvent(CALL, True, 0, start, start + us)
    inside = ProfilerEvent("aten::add", True, 0, start, start + us / 2, parent=whole)
    whole.children.append(inside)
    return [whole, inside]


def test_calls_near_the_timing_count_but_none_that_was_interrupted():
    calls = [one_call(100.0 * number, us) for number, us in enumerate((5.0, 7.0, 4.0, 6.0, 90.0))]
    events = [event for call in calls for event in call]
    times = {call[0]: call[0].us for call in calls}
    assert calls_near(times, 5.0) == [calls[n][0] for n in (0, 2, 3)]
    assert calls_near(times, 1e9) == [calls[n][0] for n in (1, 3, 0)], "a target above the quartile is moved there"
    assert faster_half(list(times)) == [calls[n][0] for n in (2, 0, 3)]
    profile = call_parts([Round(events)], (), timed_us=5.0)
    assert profile.repeats == 3
    assert profile.total_us == pytest.approx(5.0)
    (op,) = (part for part in profile.parts if part.kind == "eager op")
    assert op.us == pytest.approx(2.5)


def test_a_part_in_which_a_busy_machine_stopped_a_call_keeps_its_share():
    guards, graph = "TorchDynamo Cache Lookup", GRAPH + "0/0 forward"
    events: list[ProfilerEvent] = []
    for start, stopped in ((0, 40), (1000, 0), (2000, 0)):
        events += tree_of(
            (CALL, start, start + 100 + stopped, ""),
            (guards, start, start + 10 + stopped, CALL),
            (graph, start + 10 + stopped, start + 100 + stopped, CALL),
            (KERNEL + "cpp_fused_0", start + 10 + stopped, start + 100 + stopped, graph),
        )
    profile = call_parts([Round(events)], (), timed_us=140)
    shares = {part.kind: part.us / profile.total_us for part in profile.parts}
    assert shares["guards"] == pytest.approx(0.1)
    assert sum(shares.values()) == pytest.approx(1)


def test_a_part_is_its_least_time_if_calls_differ_much():
    calls = [one_call(1000.0 * number, us) for number, us in enumerate((8.0, 100.0, 40.0, 300.0))]
    for number, (whole, inside) in enumerate(calls):
        inside.end = whole.end - (2.0 if number < 2 else 30.0)
    profile = call_parts([Round([event for call in calls for event in call])], (), timed_us=500.0)
    us = {part.kind: part.us for part in profile.parts}
    assert profile.total_us == pytest.approx(70.0)
    assert sum(us.values()) == pytest.approx(70.0)
    assert us["eager op"] / us["Python"] == pytest.approx(6 / 2)


def below(parent: ProfilerEvent, name: str, *spans: tuple[float, float]) -> list[ProfilerEvent]:
    """Return an event with the children that it has at these times."""
    parent.children = [ProfilerEvent(name, True, 0, start, end, parent=parent) for start, end in spans]
    return [parent, *parent.children]


def calibrated(plain_us: float) -> Round:
    """Return a call of 100 µs with 20 ops and a range of torch, in a profiler that adds 1 µs to each, 4 to a range."""
    ops = ProfilerEvent(CALIBRATION + "ops", True, 0, 0, 50)
    ranges = ProfilerEvent(CALIBRATION + "ranges", True, 0, 0, 5 * MARKS)
    events = [
        *below(ops, "aten::t", *((n, n + 1) for n in range(40))),
        *below(ranges, CALIBRATION + "range", (0.0, 4.0)),
        *below(ProfilerEvent(CALL, True, 0, 100, 200), "aten::add", *((100 + 4 * n, 103 + 4 * n) for n in range(20))),
    ]
    call = next(event for event in events if event.name == CALL)
    region = ProfilerEvent("Torch-Compiled Region: 0/0", True, 0, 190, 200, parent=call)
    call.children.append(region)
    return Round([*events, region], [plain_us], plain_ops_us=10.0)


@pytest.mark.parametrize(("plain_us", "total"), [(76.0, 76.0), (78.5, 78.5), (10.0, 75.0), (500.0, 79.0)])
def test_the_cost_of_the_profiler_is_taken_out(plain_us: float, total: float) -> None:
    """An event costs what a cheap op does; a range of torch more, as far as calls without the profiler are faster."""
    profile = call_parts([calibrated(plain_us)], ())
    assert profile.total_us == pytest.approx(total, abs=0.5)
    (ops,) = (part for part in profile.parts if part.kind == "eager op")
    assert ops.us == pytest.approx(20 * 2.5)
    assert profile.region_entries == 1
