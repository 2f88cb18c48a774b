"""From samples to the estimate that the user sees. Pure: the same samples give the same estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcexplore.events import TimingEstimate
from tcexplore.timing.conditions import Conditions
from tcexplore.timing.sample_statistics import halves, independent, mad, median, outliers, percentile
from tcexplore.timing.samples import Samples
from tcexplore.timing.timing_notes import notes
from tcexplore.timing.timing_verdict import (
    FEWEST_CONTROLS,
    FEWEST_PAIRS,
    FEWEST_SLOW_PAIRS,
    log_ratios,
    noise_floor,
    speedup,
    verdict,
)

FEWEST_FOR_HALVES = 20


def enough(samples: Samples, *, slow: bool) -> bool:
    """Whether there are pairs and control pairs enough for a verdict."""
    fewest = FEWEST_SLOW_PAIRS if slow else FEWEST_PAIRS
    return len(samples.measured) >= fewest and len(samples.control) >= FEWEST_CONTROLS


def estimate(samples: Samples, conditions: Conditions) -> TimingEstimate:
    """The estimate drawn from at least one measured pair. Raises `ValueError` when there is none."""
    eager, compiled = list(samples.measured.first), list(samples.measured.second)
    ratio = speedup(eager, compiled)
    floor = noise_floor(samples.control.first, samples.control.second, independent(log_ratios(eager, compiled)))
    drawn = TimingEstimate(
        eager_us=median(eager),
        eager_spread_us=mad(eager),
        compiled_us=median(compiled),
        compiled_spread_us=mad(compiled),
        speedup=ratio.value,
        low=ratio.interval.low,
        high=ratio.interval.high,
        noise_floor=floor,
        pairs=len(eager),
        verdict=verdict(ratio, floor, enough=enough(samples, slow=conditions.slow)),
        threads=conditions.threads,
        device=conditions.device,
        calls=conditions.calls,
        block=conditions.block,
        block_compiled=conditions.block_compiled,
        train=conditions.train,
        control_pairs=len(samples.control),
        pairs_taken=samples.measured.taken,
        pairs_discarded=samples.discarded,
        eager_p10_us=percentile(eager, 0.1),
        eager_p90_us=percentile(eager, 0.9),
        compiled_p10_us=percentile(compiled, 0.1),
        compiled_p90_us=percentile(compiled, 0.9),
        eager_outliers=outliers(eager).total,
        compiled_outliers=outliers(compiled).total,
        eager_halves_us=_halves(eager),
        compiled_halves_us=_halves(compiled),
        device_eager_us=conditions.device_eager_us,
        device_compiled_us=conditions.device_compiled_us,
    )
    return replace(drawn, notes=notes(drawn, conditions))


def _halves(values: Sequence[float]) -> tuple[float, ...]:
    return halves(values) if len(values) >= FEWEST_FOR_HALVES else ()
