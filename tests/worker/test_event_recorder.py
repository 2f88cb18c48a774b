"""The recorder's kernels of the run, for steps after the compile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.events import AtenGraph, CallProfiled, Event, ExtraCompiles, FrameEntered, FxNode, Kernel
from tcexplore.worker.event_recorder import EventRecorder
from tests.snapshots.estimates import TIMING

pytestmark = pytest.mark.torch


def kernel(graph: str, language: str, target: str = "native") -> Kernel:
    return Kernel(graph=graph, phase="forward", name=f"{language} {graph}", language=language, source="", target=target)


def graph(name: str, device: str) -> AtenGraph:
    node = FxNode(name="mm", op="call_function", target="aten.mm.default", device=device)
    return AtenGraph(graph=name, stage="post_grad", phase="forward", nodes=(node,))


def test_a_library_call_is_a_gpu_kernel_if_its_graph_has_a_tensor_there() -> None:
    events: list[Event] = []
    recorder = EventRecorder(events.append)
    lowered: list[Kernel] = []
    recorder.handle_target_kernel = lowered.append
    sent = (
        graph("0/0", "cuda:0"), kernel("0/0", "extern"), kernel("0/0", "triton"), kernel("0/0", "cpp"),
        graph("1/0", "cpu"), kernel("1/0", "extern"), kernel("1/0", "cpp"), kernel("2/0", "triton", target="l4"),
    )  # fmt: skip
    for event in sent:
        recorder.emit(event)
    assert events == list(sent), "every event is sent"
    assert [kernel.name for kernel in recorder.gpu_kernels()] == ["extern 0/0", "triton 0/0"]
    assert [kernel.name for kernel in lowered] == ["triton 2/0"]


def test_events_of_later_compiles_are_counted_instead_of_sent():
    sent: list[Event] = []
    recorder = EventRecorder(sent.append)
    recorder.emit(FrameEntered(graph="0/0"))
    recorder.close_graphs()
    recorder.emit(FrameEntered(graph="0/1", entry_count=1))
    recorder.emit(FrameEntered(graph="0/0"))
    recorder.emit(FrameEntered(graph="0/2", limit_hit="recompile_limit"))
    assert sent == [
        FrameEntered(graph="0/0"),
        ExtraCompiles(compiles=1),
        FrameEntered(graph="0/0"),
        ExtraCompiles(compiles=1, limit_hit=True),
    ]


def profile(device_busy_us: float | None) -> CallProfiled:
    return CallProfiled(run=1, total_us=3000.0, repeats=5, parts=(), device_busy_us=device_busy_us)


def test_a_profile_of_the_device_completes_the_estimates_before_and_after_it():
    sent: list[Event] = []
    recorder = EventRecorder(sent.append)
    timing = replace(TIMING, device="cuda: NVIDIA H200")
    busy = replace(profile(900.0), eager_device_busy_us=800.0)
    complete = timing.with_kernels(800.0, 900.0)
    for event in (timing, busy, timing):
        recorder.emit(event)
    assert sent == [timing, busy, complete, complete]
    assert complete.compiled_kernels_us == 900.0 / timing.calls


def test_a_profile_that_disagrees_with_the_timing_does_not_complete_it():
    sent: list[Event] = []
    recorder = EventRecorder(sent.append)
    events = (TIMING, profile(1400.0), TIMING, profile(None))
    for event in events:
        recorder.emit(event)
    assert sent == list(events)
