"""Autotuning results, from fake torch objects and from recorded profiles; the hooks exist in this torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.autotuning import Autotuning, install
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Autotuned, Event, FactMissing
from tests.capture import recorded_profiles

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def fake_launcher(block: int) -> Any:
    config = SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=4, num_stages=1)

    class Launcher:
        pass

    launcher: Any = Launcher()
    launcher.config = config
    return launcher


def fake_tuner(**more: Any) -> Any:
    facts = {"inductor_meta": {"kernel_name": "triton_poi_0"}, "compile_id": "1/0", "is_backward": True, **more}
    return SimpleNamespace(**facts)


def observer() -> tuple[Autotuning, list[Event]]:
    events: list[Event] = []
    return Autotuning(Hooks(events.append)), events


def test_configurations_of_a_kernel_are_sorted_and_the_fastest_is_taken():
    autotuning, events = observer()
    autotuning._begins()
    autotuning._configurations(
        {fake_launcher(128): 0.02, fake_launcher(256): 0.01, fake_launcher(512): float("inf")}, fake_tuner()
    )
    (tuned,) = events
    assert isinstance(tuned, Autotuned)
    assert (tuned.graph, tuned.phase, tuned.method, tuned.kernel) == (
        "1/0",
        "backward",
        "configurations",
        "triton_poi_0",
    )
    assert [(c.name.partition(",")[0], c.us, c.chosen) for c in tuned.choices] == [
        ("XBLOCK=256", 10.0, True),
        ("XBLOCK=128", 20.0, False),
        ("XBLOCK=512", None, False),
    ]


def test_single_configurations_and_unnamed_templates_are_not_reported():
    autotuning, events = observer()
    autotuning._begins()
    autotuning._configurations({fake_launcher(128): 0.02}, fake_tuner())
    autotuning._begins()
    unnamed = fake_tuner(inductor_meta={"kernel_name": "Placeholder.DESCRIPTIVE_NAME"})
    autotuning._configurations({fake_launcher(128): 0.02, fake_launcher(256): 0.01}, unnamed)
    assert events == []


def test_nested_benchmarks_have_separate_times():
    autotuning, events = observer()
    autotuning._begins()
    autotuning._begins()
    autotuning._configurations({fake_launcher(128): 0.02, fake_launcher(256): 0.01}, fake_tuner())
    results = {(("num_stages", 1), ("XBLOCK", block), ("num_warps", 4)): ms for block, ms in ((256, 0.01), (512, 0.02))}
    descent = SimpleNamespace(cached_benchmark_results=results)
    autotuning._coordinate_descent(fake_launcher(256), fake_tuner(coordesc_tuner=descent))
    inner, outer = (event for event in events if isinstance(event, Autotuned))
    assert inner.seconds is not None
    assert outer.seconds is not None
    assert inner.seconds <= outer.seconds
    assert (outer.method, outer.choices[0].chosen, outer.choices[1].chosen) == ("coordinate descent", True, False)


def test_hooks_exist_and_recorded_gpu_events_are_complete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    events: list[Event] = []
    hooks = Hooks(events.append)
    install(hooks, StructuredTrace(hooks), UserFiles(__file__))
    hooks.remove()
    assert [event for event in events if isinstance(event, FactMissing)] == []
    chosen, descended = (event for event in recorded_profiles.events("max_autotune") if isinstance(event, Autotuned))
    assert (chosen.method, chosen.op, chosen.node, chosen.input_sizes[1]) == (
        "algorithms",
        "addmm",
        "addmm",
        "256 × 512",
    )
    assert {choice.kind for choice in chosen.choices} == {"template", "extern"}
    assert [choice.chosen for choice in chosen.choices].index(True) == 0
    kernel = next(k for k in recorded_profiles.kernels("max_autotune") if k.name.startswith("triton_tem"))
    assert chosen.node in kernel.nodes
    assert descended.kernel == "triton_per_fused__softmax_exp_gelu_native_layer_norm_prepare_softmax_online_sub_1"
