"""The timing with a fresh heap: page faults of both sides, and its limits."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, cast

import pytest

from tcexplore.timing import fresh_heap
from tcexplore.timing.fresh_heap import (
    MAX_PAIRS,
    CallCost,
    PairCost,
    compare_with_warm_heap,
    cost_of_pair,
    time_fresh_heap,
)
from tcexplore.timing.workload import Workload
from tests.snapshots.mlp_timing import FRESH

PAGES = 2000
CALLS = 2


def touch_pages() -> None:
    """Write to pages that the process does not have yet."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as pages:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at] = 1


def workload(compiled: Callable[[], object] = lambda: None, **changed: Any) -> Workload:
    return Workload(eager=touch_pages, compiled=compiled, calls=CALLS, train=False, device=cast("Any", None), **changed)


def cost(work: Workload) -> PairCost:
    pair = cost_of_pair(work, 60.0)
    assert pair is not None
    return pair


def test_page_faults_and_times_of_both_sides_are_per_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fresh_heap, "is_loaded", lambda *_: False)
    pytest.importorskip("resource")
    work = workload()
    pair = cost(work)
    assert PAGES / CALLS <= pair.eager.page_faults < 1.2 * PAGES / CALLS
    assert pair.compiled.page_faults < 5
    assert pair.eager.us > pair.compiled.us
    fresh = time_fresh_heap(work, pair, lambda: 0, 60.0)
    assert fresh is not None
    assert (fresh.pairs, fresh.verdict, fresh.differs) == (MAX_PAIRS, "faster", False)
    assert PAGES / CALLS <= fresh.eager_page_faults < 1.2 * PAGES / CALLS
    assert 1 < fresh.low <= fresh.speedup <= fresh.high


def test_each_unit_is_reset_and_the_last_one_too():
    pytest.importorskip("resource")
    steps: list[str] = []
    work = workload(lambda: steps.append("call"), reset=lambda: steps.append("reset"))
    cost(work)
    assert steps == ["reset", "reset", "call"] * 3 + ["reset"]


def test_calls_too_slow_for_the_budget_are_not_timed():
    calls: list[int] = []
    assert cost_of_pair(workload(lambda: calls.append(1)), 0.0) is None
    assert len(calls) <= 1


def test_calls_that_compile_are_not_timed():
    pytest.importorskip("resource")
    compiles = count()
    work = workload()
    assert time_fresh_heap(work, cost(work), lambda: next(compiles), 60.0) is None


def test_the_time_of_a_page_fault_is_that_of_this_machine():
    assert 0.02 < fresh_heap.page_fault_us() < 100


def test_page_faults_make_a_difference_if_they_take_a_noticeable_part_of_a_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fresh_heap, "page_fault_us", lambda: 0.5)
    assert CallCost(us=2000.0, page_faults=200.0).depends_on_page_faults()
    assert not CallCost(us=2000.0, page_faults=199.0).depends_on_page_faults()
    unchanged = PairCost(CallCost(2000.0, 940.0), CallCost(1400.0, 12.0))
    assert not compare_with_warm_heap(FRESH, unchanged).differs
    warm = unchanged._replace(eager=CallCost(1500.0, 0.0))
    assert compare_with_warm_heap(FRESH, warm) == replace(
        FRESH, warm_eager_page_faults=0.0, warm_compiled_page_faults=12.0, differs=True
    )
    compiled_only = unchanged._replace(compiled=CallCost(1400.0, 900.0))
    assert compare_with_warm_heap(FRESH, compiled_only).differs
