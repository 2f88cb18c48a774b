"""The speedup over several processes, each of which is one sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance

from tcexplore.events.timing_events import TimedProcess
from tcexplore.timing.samples import Interval, median
from tcexplore.timing.timing_verdict import Speedup

PROCESS_SPREAD = 0.03
"""Standard deviation of the log speedup between processes that is expected before there are many."""

EXPECTED_WEIGHT = 1
"""The number of processes that this expectation counts for."""

GPU_PROCESS_SPREAD = 0.005
"""The same if the device is busy for most of a call: that of ten pairs of plain scripts on an H200."""

LAUNCH_PROCESS_SPREAD = 0.02
"""The same if the device waits for launches: 0.017 to 0.025 for 25 plain scripts of five models on an H100, and 0.021
for 15 runs. Calls took up to twice as long in one process as in another."""

MEDIAN_FACTOR = 1.2
"""Standard error of the median of a few processes over that of their mean: 1.16 for three, 1.20 for five."""

NORMAL_QUANTILE = 2.17
"""Half the width of a 97% interval in standard errors; see `CONFIDENCE`."""

_T_QUANTILES = (2.64, 2.58, 2.53, 2.49, 2.46, 2.44)
"""The same of Student's t with 8, 9, 10, 11, 12, 13 degrees of freedom."""

QUANTILES = (21.21, 5.65, 3.90, 3.30, 3.01, 2.83, 2.72, *_T_QUANTILES)
"""The same from 1 degree of freedom on."""


def combine(processes: Sequence[TimedProcess], effective_pairs: int, spread: float | None = None) -> Speedup:
    """Return the speedup of at least one process, and its interval over processes and pairs.

    The speedup is the median of the processes: about one in ten has its memory in an unlucky place and is up to a third
    slower on one side. The interval follows from the scatter of the processes, not from the number of pairs, and is
    never narrower than the pairs of a usual process allow: one that was disturbed does not move a median. `spread` is
    the standard deviation between processes that is expected on a GPU, by which the interval of one process is widened.
    """
    logs = [math.log(process.speedup) for process in processes]
    errors = [math.log(process.high / process.low) / 2 / NORMAL_QUANTILE for process in processes]
    middle, freedom = median(logs), len(logs) - 1
    if freedom == 0:
        (only,) = processes
        extra = NORMAL_QUANTILE * (spread or 0.0)
        low, high = (math.hypot(extra, math.log(end / only.speedup)) for end in (only.low, only.high))
        return Speedup(only.speedup, Interval(math.exp(middle - low), math.exp(middle + high)), effective_pairs)
    expected = PROCESS_SPREAD if spread is None else spread
    scatter = (EXPECTED_WEIGHT * expected**2 + freedom * variance(logs)) / (EXPECTED_WEIGHT + freedom)
    # The scatter is estimated from few processes, the error within one from its many pairs.
    quantile = QUANTILES[min(freedom + EXPECTED_WEIGHT, len(QUANTILES)) - 1]
    reach = max(quantile * math.sqrt(scatter), NORMAL_QUANTILE * median(errors)) * MEDIAN_FACTOR / math.sqrt(len(logs))
    return Speedup(math.exp(middle), Interval(math.exp(middle - reach), math.exp(middle + reach)), effective_pairs)
