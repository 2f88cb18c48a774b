"""The estimate that the user sees, computed from samples; the same samples give the same estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tcexplore.events import TimingEstimate
from tcexplore.events.timing_events import MemoryReturned, MemoryState, TimedProcess
from tcexplore.timing.process_statistics import combine
from tcexplore.timing.samples import (
    Conditions,
    Samples,
    count_outliers,
    half_medians,
    mad,
    median,
)
from tcexplore.timing.timing_notes import timing_notes
from tcexplore.timing.timing_verdict import (
    MIN_CONTROL_PAIRS,
    MIN_PAIRS,
    MIN_SLOW_PAIRS,
    Decision,
    Speedup,
    decide_verdict,
    estimate_speedup,
    keep_or_change,
    noise_floor,
)

MIN_FOR_HALVES = 20


def has_enough_pairs(samples: Samples, *, slow: bool) -> bool:
    """Check whether there are enough pairs and control pairs for a verdict."""
    minimum = MIN_SLOW_PAIRS if slow else MIN_PAIRS
    return len(samples.measured) >= minimum and len(samples.control) >= MIN_CONTROL_PAIRS


class Estimated(NamedTuple):
    """An estimate, and the decision to keep for the next one."""

    estimate: TimingEstimate
    decision: Decision


def make_estimate(
    samples: Samples,
    conditions: Conditions,
    before: Decision | None = None,
    others: Sequence[TimedProcess] = (),
) -> Estimated:
    """Return the estimate from at least one measured pair, after the decision `before`.

    `others` are other processes that were timed. Raises `ValueError` without pairs.
    """
    eager, compiled = list(samples.measured.first), list(samples.measured.second)
    own = estimate_speedup(eager, compiled)
    processes = (timed_process(samples, conditions.memory, own), *others)
    alike = [process for process in processes if process.memory == conditions.memory]
    speedup = combine(alike, own.effective_pairs)
    others_pairs = sum(process.pairs for process in alike[1:])
    floor = noise_floor(samples.control.first, samples.control.second, own.effective_pairs + others_pairs)
    enough = has_enough_pairs(samples, slow=conditions.slow)
    now = Decision(decide_verdict(speedup, floor, enough=enough), speedup)
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
        eager_outliers=count_outliers(eager).total,
        compiled_outliers=count_outliers(compiled).total,
        eager_halves_us=_halves(eager),
        compiled_halves_us=_halves(compiled),
        fastest_eager_us=samples.fastest_us.get("eager"),
        fastest_compiled_us=samples.fastest_us.get("compiled"),
        fastest_control_us=samples.fastest_us.get("control"),
        eager_device_span_us=conditions.eager_device_span_us,
        compiled_device_span_us=conditions.compiled_device_span_us,
        cores=conditions.cores,
        busy_cores=conditions.busy_cores,
        processes=processes,
        processes_to_come=conditions.processes_to_come,
        memory_returned=memory_returned(processes, decision),
    )
    return Estimated(replace(estimate, notes=timing_notes(estimate, conditions)), decision)


def timed_process(samples: Samples, memory: MemoryState, speedup: Speedup | None = None) -> TimedProcess:
    """Return what one process measured, by its pairs alone. Raises `ValueError` without pairs."""
    first, second = samples.measured.first, samples.measured.second
    speedup = speedup or estimate_speedup(first, second)
    return TimedProcess(
        memory=memory,
        pairs=len(first),
        speedup=speedup.value,
        low=speedup.interval.low,
        high=speedup.interval.high,
        eager_us=median(first),
        compiled_us=median(second),
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
