"""What torch measured before it chose, with its objects made up; and the hooks in the places where it has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.autotuning import Autotuning, install
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FactMissing, Tuned
from tests.capture import profiles

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def launcher(block: int) -> Any:
    config = SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=4, num_stages=1)

    class Launcher:
        pass

    made: Any = Launcher()
    made.config = config
    return made


def tuner(**more: Any) -> Any:
    facts = {"inductor_meta": {"kernel_name": "triton_poi_0"}, "compile_id": "1/0", "is_backward": True, **more}
    return SimpleNamespace(**facts)


def tuning() -> tuple[Autotuning, list[Event]]:
    events: list[Event] = []
    return Autotuning(Hooks(events.append)), events


def test_the_configurations_of_a_kernel_with_the_one_that_runs():
    autotuning, events = tuning()
    autotuning._begins()
    autotuning._configurations({launcher(128): 0.02, launcher(256): 0.01, launcher(512): float("inf")}, tuner())
    (tuned,) = events
    assert isinstance(tuned, Tuned)
    assert (tuned.graph, tuned.phase, tuned.what, tuned.kernel) == ("1/0", "backward", "configurations", "triton_poi_0")
    assert [(c.name.partition(",")[0], c.us, c.taken) for c in tuned.choices] == [
        ("XBLOCK=256", 10.0, True),
        ("XBLOCK=128", 20.0, False),
        ("XBLOCK=512", None, False),
    ]


def test_a_kernel_without_a_choice_and_a_template_that_is_only_tried_say_nothing():
    autotuning, events = tuning()
    autotuning._begins()
    autotuning._configurations({launcher(128): 0.02}, tuner())
    autotuning._begins()
    tried = tuner(inductor_meta={"kernel_name": "Placeholder.DESCRIPTIVE_NAME"})
    autotuning._configurations({launcher(128): 0.02, launcher(256): 0.01}, tried)
    assert events == []


def test_one_measuring_inside_another_keeps_both_times():
    autotuning, events = tuning()
    autotuning._begins()
    autotuning._begins()
    autotuning._configurations({launcher(128): 0.02, launcher(256): 0.01}, tuner())
    tried = {(("num_stages", 1), ("XBLOCK", block), ("num_warps", 4)): ms for block, ms in ((256, 0.01), (512, 0.02))}
    descent = SimpleNamespace(cached_benchmark_results=tried)
    autotuning._descended(launcher(256), tuner(coordesc_tuner=descent))
    inner, outer = (event for event in events if isinstance(event, Tuned))
    assert inner.seconds is not None
    assert outer.seconds is not None
    assert inner.seconds <= outer.seconds
    assert (outer.what, outer.choices[0].taken, outer.choices[1].taken) == ("coordinate descent", True, False)


def test_the_hooks_are_in_place_and_what_they_saw_on_a_gpu_is_as_recorded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    events: list[Event] = []
    hooks = Hooks(events.append)
    install(hooks, StructuredTrace(hooks), UserFiles(__file__))
    hooks.remove()
    assert [event for event in events if isinstance(event, FactMissing)] == []
    chosen, descended = (event for event in profiles.events("max_autotune") if isinstance(event, Tuned))
    assert (chosen.what, chosen.op, chosen.node, chosen.sizes[1]) == ("algorithms", "addmm", "addmm", "256 × 512")
    assert {choice.kind for choice in chosen.choices} == {"template", "extern"}
    assert [choice.taken for choice in chosen.choices].index(True) == 0
    kernel = next(k for k in profiles.kernels("max_autotune") if k.name.startswith("triton_tem"))
    assert chosen.node in kernel.nodes
    assert descended.kernel == "triton_per_fused__softmax_exp_gelu_native_layer_norm_prepare_softmax_online_sub_1"
