"""What profiles change for the timing."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import eager_ops
from tcexplore.capture.dynamo.eager_ops import detach_profiler
from tcexplore.timing.profile_effect import MIN_PAIRS, compare_ratios, measure_ratios
from tests.timing.simulation import simulated_clock, workload


def pairs(ratio: float, *, noise: float = 0.025, seed: int = 0, count: int = 40) -> list[float]:
    rng = random.Random(seed)
    return [ratio * rng.gauss(1, noise) for _ in range(count)]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (1.556, 1.750, True),  # 24 small layers on an H200, torch 2.11: attached
        (1.556, 1.719, True),
        (8.069, 9.397, True),  # with CUDA graphs, where torch keeps the profiler attached
        (1.566, 1.542, False),  # detached by TEARDOWN_CUPTI
        (1.502, 1.502, False),  # detached by cuptiFinalize
        (7.49, 7.56, False),  # a call whose kernels take all of its time
    ],
)
def test_ratios_on_an_h200(before: float, after: float, changed: bool):
    effect = compare_ratios(pairs(before), pairs(after, seed=1))
    assert effect.changed is changed
    assert (effect.ratio_before, effect.ratio_after) == pytest.approx((before, after), rel=0.02)


def test_chance_is_seldom_a_change():
    effects = [
        compare_ratios(pairs(1.5, seed=2 * n, noise=0.1), pairs(1.5, seed=2 * n + 1, noise=0.1)) for n in range(200)
    ]
    assert sum(effect.changed for effect in effects) <= 2


def test_the_ratio_is_that_of_the_workload():
    clock = simulated_clock()
    ratios = measure_ratios(workload(lambda: clock.work(3e6), lambda: clock.work(2e6)), clock)
    assert len(ratios) >= MIN_PAIRS
    assert ratios == pytest.approx([1.5] * len(ratios))
    slow = measure_ratios(workload(lambda: clock.work(3e9), lambda: clock.work(2e9)), clock)
    assert len(slow) == MIN_PAIRS


def test_without_cuda_nothing_detaches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(eager_ops, "loaded_libraries", lambda _: pytest.fail("looks for CUPTI"))
    detach_profiler()


def test_cupti_stays_attached_where_torch_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(eager_ops, "loaded_libraries", lambda _: [])
    monkeypatch.setenv("TEARDOWN_CUPTI", "0")
    detach_profiler()
    monkeypatch.delenv("TEARDOWN_CUPTI")
    with pytest.raises(RuntimeError, match="no libcupti is loaded"):
        detach_profiler()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_profile_changes_the_ratio_until_it_is_detached():
    from tcexplore.capture.inductor.call_profile import run_profiled

    cuda = torch.device("cuda")
    small, large = torch.zeros(1, device=cuda), torch.ones(4096, 4096, device=cuda)
    work = workload(lambda: [small.add_(1) for _ in range(50)], lambda: torch.mm(large, large), device=cuda)
    before = measure_ratios(work)
    run_profiled(lambda: small.add_(1), lambda: None)
    attached = compare_ratios(before, measure_ratios(work))
    detach_profiler()
    detached = compare_ratios(before, measure_ratios(work))
    assert attached.ratio_after > detached.ratio_after
    assert attached.changed
