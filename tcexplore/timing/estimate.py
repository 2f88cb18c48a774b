"""The estimate that the user sees, computed from samples; the same samples give the same estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcexplore.events import TimingEstimate
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
    decide_verdict,
    estimate_speedup,
    is_loaded,
    noise_floor,
)

MIN_FOR_HALVES = 20


def has_enough_pairs(samples: Samples, *, slow: bool) -> bool:
    """Check whether there are enough pairs and control pairs for a verdict."""
    minimum = MIN_SLOW_PAIRS if slow else MIN_PAIRS
    return len(samples.measured) >= minimum and len(samples.control) >= MIN_CONTROL_PAIRS


def make_estimate(samples: Samples, conditions: Conditions) -> TimingEstimate:
    """Return the estimate from at least one measured pair. Raises `ValueError` without pairs."""
    eager, compiled = list(samples.measured.first), list(samples.measured.second)
    speedup = estimate_speedup(eager, compiled)
    floor = noise_floor(samples.control.first, samples.control.second, speedup.effective_pairs)
    estimate = TimingEstimate(
        eager_us=median(eager),
        eager_spread_us=mad(eager),
        compiled_us=median(compiled),
        compiled_spread_us=mad(compiled),
        speedup=speedup.value,
        low=speedup.interval.low,
        high=speedup.interval.high,
        noise_floor=floor,
        pairs=len(eager),
        verdict=decide_verdict(
            speedup,
            floor,
            enough=has_enough_pairs(samples, slow=conditions.slow),
            loaded=is_loaded(conditions.busy_cores, conditions.cores),
        ),
        threads=conditions.threads,
        device=conditions.device,
        calls=conditions.calls,
        block=conditions.block,
        block_compiled=conditions.block_compiled,
        train=conditions.train,
        control_pairs=len(samples.control),
        pairs_taken=samples.measured.taken,
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
        fresh_heap=conditions.fresh_heap,
    )
    return replace(estimate, notes=timing_notes(estimate, conditions))


def _halves(values: Sequence[float]) -> tuple[float, ...]:
    return half_medians(values) if len(values) >= MIN_FOR_HALVES else ()
