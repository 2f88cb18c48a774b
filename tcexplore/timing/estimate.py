"""The estimate that the user sees, with notes on its limits, computed from samples; the same samples give the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tcexplore.events import TimingEstimate
from tcexplore.events.timing_events import LAUNCH_BOUND, MemoryReturned, MemoryState, TimedProcess
from tcexplore.quantities import count, duration, speedup_range
from tcexplore.timing.process_statistics import GPU_PROCESS_SPREAD, LAUNCH_PROCESS_SPREAD, combine
from tcexplore.timing.samples import Conditions, Samples, count_outliers, half_medians, mad, median
from tcexplore.timing.steady_state import DUTY, FULL_SPEED_S, MAX_SPREAD
from tcexplore.timing.timing_verdict import (
    MIN_CONTROL_PAIRS,
    MIN_PAIRS,
    MIN_SLOW_PAIRS,
    Decision,
    Speedup,
    busy_threads,
    decide_verdict,
    estimate_speedup,
    is_crowded,
    keep_or_change,
    noise_floor,
)

MIN_FOR_HALVES = 20

LEAST_PROCESSES = 3
"""Processes, the first included, that stand for one that is undecided while others are to come."""


def has_enough_pairs(samples: Samples, *, slow: bool) -> bool:
    """Check whether there are enough pairs and control pairs for a verdict."""
    minimum = MIN_SLOW_PAIRS if slow else MIN_PAIRS
    return len(samples.measured) >= minimum and len(samples.control) >= MIN_CONTROL_PAIRS


class Estimated(NamedTuple):
    """An estimate, and the decision to keep for the next one."""

    estimate: TimingEstimate
    decision: Decision


class _Decided(NamedTuple):
    """What follows from some of the processes."""

    now: Decision
    known: Sequence[TimedProcess]
    alike: Sequence[TimedProcess]
    """Those with the usual state of the memory."""
    floor: float
    others_pairs: int
    """Pairs of all but the first one."""


def make_estimate(
    samples: Samples, conditions: Conditions, before: Decision | None = None, others: Sequence[TimedProcess] = ()
) -> Estimated:
    """Return the estimate from at least one measured pair, after the decision `before`.

    `others` are other processes that were timed. Raises `ValueError` without pairs.
    """
    eager, compiled = list(samples.measured.first), list(samples.measured.second)
    # Of steps of several sizes, a long one is no outlier, and longer ones later are no drift.
    alike_eager, alike_compiled = ([], []) if samples.measured.varying else (eager, compiled)
    own = estimate_speedup(eager, compiled)
    processes = (timed_process(samples, conditions.memory, own), *others)
    enough = has_enough_pairs(samples, slow=conditions.slow)

    def decide(known: Sequence[TimedProcess]) -> _Decided:
        alike = [process for process in known if process.memory == conditions.memory]
        speedup = combine(alike, own.effective_pairs, _expected_spread(conditions, processes[0].compiled_us))
        others_pairs = sum(process.pairs for process in alike[1:])
        floor = noise_floor(samples.control.first, samples.control.second, own.effective_pairs + others_pairs)
        decision = Decision(decide_verdict(speedup, floor, enough=enough), speedup, len(alike))
        return _Decided(decision, known, alike, floor, others_pairs)

    # A verdict of the first process changes once, when all are timed, not with each. If it has none, since it was
    # disturbed, it takes that of the others as they come.
    decided = decide(processes[:1] if conditions.processes_to_come else processes)
    usual = sum(process.memory == conditions.memory for process in processes)
    if conditions.processes_to_come and decided.now.verdict == "undecided" and usual >= LEAST_PROCESSES:
        decided = decide(processes)
    now, known, alike, floor, others_pairs = decided
    decision = keep_or_change(before, now)
    estimate = TimingEstimate(
        eager_us=median([process.eager_us for process in alike]),
        eager_spread_us=mad(eager),
        compiled_us=median([process.compiled_us for process in alike]),
        compiled_spread_us=mad(compiled),
        speedup=decision.speedup.value,
        low=decision.speedup.interval.low,
        high=decision.speedup.interval.high,
        noise_floor=floor,
        pairs=len(eager) + others_pairs,
        verdict=decision.verdict,
        threads=conditions.threads,
        device=conditions.device,
        calls=conditions.calls,
        block=conditions.block,
        block_compiled=conditions.block_compiled,
        train=conditions.train,
        control_pairs=len(samples.control),
        pairs_taken=samples.measured.taken + others_pairs,
        pairs_discarded=samples.discarded,
        eager_outliers=count_outliers(alike_eager).total,
        compiled_outliers=count_outliers(alike_compiled).total,
        eager_halves_us=_halves(alike_eager),
        compiled_halves_us=_halves(alike_compiled),
        fastest_eager_us=samples.fastest_us.get("eager"),
        fastest_compiled_us=samples.fastest_us.get("compiled"),
        fastest_control_us=samples.fastest_us.get("control"),
        eager_device_span_us=conditions.eager_device_span_us,
        compiled_device_span_us=conditions.compiled_device_span_us,
        cores=conditions.cores,
        busy_cores=conditions.busy_cores,
        processes=tuple(known),
        processes_to_come=conditions.processes_to_come,
        memory_returned=memory_returned(known, decision),
        unit=conditions.unit,
    )
    return Estimated(replace(estimate, notes=timing_notes(estimate, conditions)), decision)


def _expected_spread(conditions: Conditions, compiled_us: float) -> float | None:
    """Return how much processes are expected to differ on a GPU; None on a CPU."""
    if conditions.device == "cpu":
        return None
    span_us = conditions.compiled_device_span_us
    waits = span_us is not None and span_us < LAUNCH_BOUND * compiled_us
    return LAUNCH_PROCESS_SPREAD if waits else GPU_PROCESS_SPREAD


def timed_process(samples: Samples, memory: MemoryState, speedup: Speedup | None = None) -> TimedProcess:
    """Return what one process measured, by its pairs alone. Raises `ValueError` without pairs."""
    first, second = samples.measured.first, samples.measured.second
    speedup = speedup or estimate_speedup(first, second)
    eager_us, compiled_us = samples.measured.typical_us()
    return TimedProcess(
        memory=memory,
        pairs=len(first),
        speedup=speedup.value,
        low=speedup.interval.low,
        high=speedup.interval.high,
        eager_us=eager_us,
        compiled_us=compiled_us,
        eager_page_faults=samples.median_page_faults("eager"),
        compiled_page_faults=samples.median_page_faults("compiled"),
    )


def memory_returned(processes: Sequence[TimedProcess], kept: Decision) -> MemoryReturned | None:
    """Return the timing in the processes with the allocator's defaults; None if there are none.

    `kept` is what is decided for those that keep their memory.
    """
    returned = [process for process in processes if process.memory == "memory returned"]
    if not returned:
        return None
    speedup = combine(returned, 0)
    verdict = decide_verdict(speedup, 0.0, enough=True)
    apart = speedup.interval.low > kept.speedup.interval.high or speedup.interval.high < kept.speedup.interval.low
    return MemoryReturned(
        processes=len(returned),
        eager_us=median([process.eager_us for process in returned]),
        compiled_us=median([process.compiled_us for process in returned]),
        speedup=speedup.value,
        low=speedup.interval.low,
        high=speedup.interval.high,
        verdict=verdict,
        eager_page_faults=median([process.eager_page_faults or 0.0 for process in returned]),
        compiled_page_faults=median([process.compiled_page_faults or 0.0 for process in returned]),
        differs=apart or {verdict, kept.verdict} == {"faster", "slower"},
    )


def _halves(values: Sequence[float]) -> tuple[float, ...]:
    return half_medians(values) if len(values) >= MIN_FOR_HALVES else ()


DRIFT = 0.02
MANY_OUTLIERS = 0.10
HIGH_FLOOR = 0.10

Note = Callable[[TimingEstimate, Conditions], str]


def timing_notes(estimate: TimingEstimate, conditions: Conditions) -> tuple[str, ...]:
    """Return every note that applies, most important first."""
    return tuple(text for note in _NOTES if (text := note(estimate, conditions)))


def _slow(e: TimingEstimate, _: Conditions) -> str:
    if e.verdict == "measuring" or e.pairs >= MIN_PAIRS:
        return ""
    if e.unit == "step":
        return f"Based on {e.pairs} pairs only; more steps refine the estimate"
    return f"Calls are slow: based on {e.pairs} pairs only; more time refines the estimate"


def _noise(e: TimingEstimate, _: Conditions) -> str:
    if e.control_pairs == 0 or e.noise_floor <= HIGH_FLOOR:
        return ""
    text = f"Noise: eager vs. itself varies by up to {e.noise_floor:.0%}; smaller differences can't be detected"
    if max(e.speedup, 1 / e.speedup) - 1 > e.noise_floor:
        return f"{text}: the difference is above that"
    return f"{text}. The verdict was given when it varied less" if e.verdict in ("faster", "slower") else text


def _busy(e: TimingEstimate, c: Conditions) -> str:
    threads = busy_threads(e.device, e.threads)
    if c.busy_cores is None or not is_crowded(c.busy_cores, threads, c.cores):
        return ""
    free = max(1, math.floor(c.cores - c.busy_cores))
    advice = f". --threads {free} is steadier" if free < threads else ""
    return (
        f"Other programs use {c.busy_cores:.1f} of {count(c.cores, 'core')}: both sides take longer, and wait{advice}"
    )


def _drift(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_halves_us), ("compiled", e.compiled_halves_us))
    drifts = [
        f"{side} {duration(halves[0] / 1e6)} → {duration(halves[1] / 1e6)}"
        for side, halves in sides
        if halves and abs(halves[1] / halves[0] - 1) > DRIFT
    ]
    if not drifts:
        return ""
    where = " of the run's own process" if e.processes_timed > 1 else ""
    return f"Drift between the first and second half{where}: {', '.join(drifts)}. Interleaving cancels most of it"


def _outliers(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_outliers), ("compiled", e.compiled_outliers))
    many = [f"{n / e.pairs:.0%} of {side} blocks" for side, n in sides if n > MANY_OUTLIERS * e.pairs]
    return f"Outliers: {' and '.join(many)} (included; medians are robust)" if many else ""


def _discarded(e: TimingEstimate, _: Conditions) -> str:
    return f"{count(e.pairs_discarded, 'pair')} discarded because of recompilation" if e.pairs_discarded else ""


def _unstable(_: TimingEstimate, c: Conditions) -> str:
    if c.warm_up_spread <= MAX_SPREAD:
        return ""
    return f"Warm-up had not stabilized (last rounds differed by {c.warm_up_spread:.0%})"


def _resets(e: TimingEstimate, c: Conditions) -> str:
    if not c.resets:
        return ""
    action = "Gradients are cleared and mutated inputs restored" if e.train else "Mutated inputs are restored"
    return f"{action} before each unit; this is not timed"


def _one_process(e: TimingEstimate, _: Conditions) -> str:
    if e.unit == "step":
        return "Of one process: another run of the script may differ by more than the interval"
    if e.processes_to_come and e.processes_timed == 1:
        return "Of one process so far: others may differ by more than the interval"
    return ""


def _memory_returned(e: TimingEstimate, _: Conditions) -> str:
    other = e.differing_memory_returned
    if other is None:
        return ""
    return (
        f"Memory: freed memory was kept for the next call. Returned to the system, as glibc does by default, an eager "
        f"call takes {duration(other.eager_us / 1e6)} ({count(round(other.eager_page_faults), 'page fault')}) and a "
        f"compiled one {duration(other.compiled_us / 1e6)} ({other.compiled_page_faults:,.0f}): "
        f"{speedup_range(other.speedup, other.low, other.high)}"
    )


def _warm_caches(e: TimingEstimate, _: Conditions) -> str:
    return "" if e.device == "cpu" or e.unit == "step" else "Same inputs for every call: the device's L2 cache is warm"


def _governor(_: TimingEstimate, c: Conditions) -> str:
    fixed = c.governor in ("", "performance")
    return "" if fixed else f"CPU frequency is not fixed (governor {c.governor})"


def _reserved_core(_: TimingEstimate, c: Conditions) -> str:
    return "" if c.reserved_core is None else f"Core {c.reserved_core} is reserved for the terminal app"


def _old_pairs(e: TimingEstimate, _: Conditions) -> str:
    if e.pairs_taken <= e.pairs or e.unit == "step":
        return ""
    return (
        f"Only the newest {e.pairs:,} of {e.pairs_taken:,} pairs count; after {FULL_SPEED_S:.0f} s or {e.pairs:,} "
        f"pairs, measuring pauses at least {1 - DUTY:.0%} of the time"
    )


_NOTES: tuple[Note, ...] = (
    _slow, _noise, _busy, _drift, _outliers, _discarded, _unstable, _resets,
    _one_process, _memory_returned,
    _warm_caches, _governor, _reserved_core, _old_pairs,
)  # fmt: skip
