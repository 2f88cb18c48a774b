"""The device's own time per call, sampled a little beside each estimate until it is known well enough."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.timing.sample_statistics import median
from tcexplore.timing.sampler import Sampler
from tcexplore.timing.timed_machine import TimedMachine
from tcexplore.timing.workload import Workload

AT_ONCE = 3
SLOW_NS = 100_000_000
"""A unit this long is sampled once at a time."""

WANTED = 30


class DeviceShare:
    """Medians of the device's own time in microseconds per call; None where the machine cannot tell, or not yet."""

    def __init__(self, machine: TimedMachine, workload: Workload) -> None:
        self._time = machine.device_time
        self._workload = workload
        self._eager: list[float] = []
        self._compiled: list[float] = []

    @property
    def eager_us(self) -> float | None:
        return median(self._eager) if self._eager else None

    @property
    def compiled_us(self) -> float | None:
        return median(self._compiled) if self._compiled else None

    def sample(self, sampler: Sampler) -> None:
        """Take a few samples of each side more, unless there are enough."""
        if self._time is None or len(self._eager) >= WANTED:
            return
        for _ in range(1 if sampler.eager.unit_ns > SLOW_NS else AT_ONCE):
            self._eager.append(self._per_call(self._time, self._workload.eager, sampler.eager.unit_ns))
            self._compiled.append(self._per_call(self._time, self._workload.compiled, sampler.compiled.unit_ns))

    def _per_call(
        self, time: Callable[[Callable[[], object], float], float], run: Callable[[], object], wall_ns: float
    ) -> float:
        return time(self._workload.alone(run), wall_ns) / 1e3 / self._workload.calls
