"""The speedup over several processes, each of which is one sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from tcexplore.events.timing_events import TimedProcess
from tcexplore.timing.samples import Interval
from tcexplore.timing.timing_verdict import Speedup

PROCESS_SPREAD = 0.03
"""Standard deviation of the log speedup between processes that is expected before there are many."""

EXPECTED_WEIGHT = 1
"""The number of processes that this expectation counts for."""

NORMAL_QUANTILE = 2.17
"""Half the width of a 97% interval in standard errors; see `CONFIDENCE`."""

_T_QUANTILES = (2.64, 2.58, 2.53, 2.49, 2.46, 2.44)
"""The same of Student's t with 8, 9, 10, 11, 12, 13 degrees of freedom."""

QUANTILES = (21.21, 5.65, 3.90, 3.30, 3.01, 2.83, 2.72, *_T_QUANTILES)
"""The same from 1 degree of freedom on."""


def combine(processes: Sequence[TimedProcess], effective_pairs: int) -> Speedup:
    """Return the speedup of at least one process, and its interval over processes and pairs.

    Processes are weighted by their own intervals and by how much they disagree (the random-effects model of
    DerSimonian and Laird). The interval follows from the scatter of the processes, not from the number of pairs
    (Hartung and Knapp), and is never narrower than the pairs allow.
    """
    if len(processes) == 1:
        (only,) = processes
        return Speedup(only.speedup, Interval(only.low, only.high), effective_pairs)
    logs = [math.log(process.speedup) for process in processes]
    errors = [math.log(process.high / process.low) / 2 / NORMAL_QUANTILE for process in processes]
    between = _variance_between(logs, errors)
    weights = [1 / (between + error**2) for error in errors]
    middle = sum(map(_times, weights, logs)) / sum(weights)
    freedom = len(logs) - 1
    scatter = sum(weight * (log - middle) ** 2 for weight, log in zip(weights, logs, strict=True))
    variance = max(scatter / freedom, 1.0) / sum(weights)
    quantile = QUANTILES[min(freedom + EXPECTED_WEIGHT, len(QUANTILES)) - 1]
    reach = quantile * math.sqrt(variance)
    return Speedup(math.exp(middle), Interval(math.exp(middle - reach), math.exp(middle + reach)), effective_pairs)


def _variance_between(logs: Sequence[float], errors: Sequence[float]) -> float:
    """Return the variance between processes beyond what their own errors explain, drawn to `PROCESS_SPREAD`."""
    middle, freedom = fmean(logs), len(logs) - 1
    scatter = sum((log - middle) ** 2 for log in logs)
    own = max(0.0, scatter - freedom * fmean([error**2 for error in errors]))
    return (EXPECTED_WEIGHT * PROCESS_SPREAD**2 + own) / (EXPECTED_WEIGHT + freedom)


def _times(first: float, second: float) -> float:
    return first * second
