"""The timing of one run, from the first warm call to the last refinement."""

from __future__ import annotations

from tcexplore.capture.hooks import Emit
from tcexplore.events import TimingSkipped
from tcexplore.timing.workload import Workload


def measure(workload: Workload, emit: Emit, time_for: float | None) -> None:
    """Time `workload` and emit what is found as it is found.

    Emits `PairsMeasured` and `TimingEstimate`, or one `TimingSkipped`. `time_for` is in seconds from now: None goes
    on refining until the process is ended, 0 skips. What the person's code raises passes through.
    """
    if time_for == 0:
        emit(TimingSkipped(reason="timing was switched off for this run"))
        return
