"""A short timing with a fresh heap, as a script has it: before tcexplore compares results.

After a call, glibc returns free memory at the top of the heap to the system, so the next call takes page faults. A
comparison of results leaves free memory inside the heap, which later calls reuse: the heap is warm.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from tcexplore.events.timing_events import FreshHeap
from tcexplore.timing.blocks import CPU_BLOCK_NS, BlockTimer, SystemClock
from tcexplore.timing.samples import median
from tcexplore.timing.timed_machine import OtherProcesses, core_count
from tcexplore.timing.timing_verdict import MIN_SLOW_PAIRS, decide_verdict, estimate_speedup, is_loaded
from tcexplore.timing.workload import Workload

APP_BUDGET_S, BUDGET_S = 0.5, 1.0
"""Seconds of pairs in the app, which has not compared results yet, and elsewhere. For slow calls twice as long."""
MAX_PAIRS = 60
WARM_UP_PAIRS = 3

PAGE_FAULT_SHARE = 0.05
"""Share of a call from which on its page faults matter."""

MEASURED_PAGES = 256
"""Pages by which the time of a page fault is measured."""


@cache
def page_fault_us() -> float:
    """Return the time of a minor page fault on this machine: 0.2 µs, or ten times as much in a virtual machine."""
    return min(_touch_pages() for _ in range(5)) / MEASURED_PAGES


def _touch_pages() -> float:
    """Return the microseconds for writing to new pages. They are not of the heap."""
    with mmap.mmap(-1, MEASURED_PAGES * mmap.PAGESIZE) as pages:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                pages.madvise(mmap.MADV_NOHUGEPAGE)
        start = time.perf_counter_ns()
        pages[:: mmap.PAGESIZE] = bytes(MEASURED_PAGES)
        return (time.perf_counter_ns() - start) / 1e3


class CallCost(NamedTuple):
    """Time and minor page faults of one call."""

    us: float
    page_faults: float

    def depends_on_page_faults(self, others: float = 0.0) -> bool:
        """Return whether a call with `others` page faults would take noticeably more or less time."""
        return abs(self.page_faults - others) * page_fault_us() >= PAGE_FAULT_SHARE * self.us


class PairCost(NamedTuple):
    """Cost of a call of both sides."""

    eager: CallCost
    compiled: CallCost


def page_fault_counter() -> Callable[[], int] | None:
    """Return a function that returns the minor page faults so far; None on systems that do not count them."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    return lambda: getrusage(RUSAGE_SELF).ru_minflt


def cost_of_pair(workload: Workload, budget_s: float) -> PairCost | None:
    """Return the cost of a warm call of both sides.

    Return None on systems that do not count page faults, and for calls too slow for a timing in twice `budget_s`.
    """
    counter, start = page_fault_counter(), time.monotonic()
    if counter is None:
        return None
    pairs = [PairCost(*_unit_costs(workload, counter))]
    while len(pairs) < WARM_UP_PAIRS and time.monotonic() - start < budget_s:
        pairs.append(PairCost(*_unit_costs(workload, counter)))
    if workload.reset is not None:
        workload.reset()
    # The first calls may take other page faults than the later ones.
    eager, compiled = zip(*pairs[-2:], strict=True)
    cost = PairCost(_typical(eager), _typical(compiled))
    slow = sum(call.us for call in cost) * workload.calls * MIN_SLOW_PAIRS > 2e6 * budget_s
    return None if slow else cost


def _typical(calls: tuple[CallCost, ...]) -> CallCost:
    """Return the shortest time and the most page faults: their number grows over the first calls."""
    return CallCost(min(call.us for call in calls), max(call.page_faults for call in calls))


def _unit_costs(workload: Workload, counter: Callable[[], int]) -> list[CallCost]:
    costs = []
    for side in (workload.eager, workload.compiled):
        run = workload.in_context(side)
        if workload.reset is not None:
            workload.reset()
        faults, start = counter(), time.perf_counter_ns()
        run()
        us = (time.perf_counter_ns() - start) / 1e3
        costs.append(CallCost(us / workload.calls, (counter() - faults) / workload.calls))
    return costs


def time_fresh_heap(
    workload: Workload, cost: PairCost, compile_count: Callable[[], int], budget_s: float
) -> FreshHeap | None:
    """Time interleaved pairs for `budget_s`, for too few of them twice as long; None if they compile something.

    `cost` is that of a pair before.
    """
    timer = BlockTimer(
        SystemClock(), lambda: None, workload.reset, CPU_BLOCK_NS, context=workload.context, synchronous=True
    )
    units = [timer.units_per_block(call.us * 1e3 * workload.calls) for call in cost]
    others, pairs = OtherProcesses(), list[PairCost]()
    start = time.monotonic()
    while len(pairs) < MAX_PAIRS and time.monotonic() - start < budget_s * (1 + (len(pairs) < MIN_SLOW_PAIRS)):
        count = compile_count()
        pair = _measure_pair(workload, timer, units, swapped=len(pairs) % 2 == 1)
        if compile_count() != count:
            break
        pairs.append(pair)
    if len(pairs) < MIN_SLOW_PAIRS:
        return None
    return _estimate(pairs, others.busy_cores())


def _measure_pair(workload: Workload, timer: BlockTimer, units: list[int], *, swapped: bool) -> PairCost:
    counter = page_fault_counter()
    assert counter is not None
    costs = []
    for index in (1, 0) if swapped else (0, 1):
        faults = counter()
        ns = timer.time_block((workload.eager, workload.compiled)[index], units[index]).unit_ns
        calls = units[index] * workload.calls
        costs.append(CallCost(ns / 1e3 / workload.calls, (counter() - faults) / calls))
    return PairCost(*(reversed(costs) if swapped else costs))


def _estimate(pairs: list[PairCost], busy_cores: float | None) -> FreshHeap:
    eager, compiled = [pair.eager.us for pair in pairs], [pair.compiled.us for pair in pairs]
    speedup = estimate_speedup(eager, compiled)
    loaded = is_loaded(busy_cores, core_count())
    return FreshHeap(
        eager_us=median(eager),
        compiled_us=median(compiled),
        speedup=speedup.value,
        low=speedup.interval.low,
        high=speedup.interval.high,
        verdict=decide_verdict(speedup, 0.0, enough=True, loaded=loaded),
        pairs=len(pairs),
        eager_page_faults=median([pair.eager.page_faults for pair in pairs]),
        compiled_page_faults=median([pair.compiled.page_faults for pair in pairs]),
    )


def compare_with_warm_heap(fresh: FreshHeap, warm: PairCost) -> FreshHeap:
    """Return `fresh` with the page faults of a warm heap, and whether they make a difference."""
    eager = CallCost(fresh.eager_us, fresh.eager_page_faults)
    compiled = CallCost(fresh.compiled_us, fresh.compiled_page_faults)
    return replace(
        fresh,
        warm_eager_page_faults=warm.eager.page_faults,
        warm_compiled_page_faults=warm.compiled.page_faults,
        differs=eager.depends_on_page_faults(warm.eager.page_faults)
        or compiled.depends_on_page_faults(warm.compiled.page_faults),
    )
