"""The calls of one compiled region, counted in constant space."""

from __future__ import annotations

from collections import deque

from tcexplore.events import RegionCalls

MAX_SAMPLES = 512
"""Number of warm calls in the quantiles."""

MAX_BINS = 256
FINEST_BIN_S = 0.02


class Activity:
    """Counts calls over time, in at most `MAX_BINS` bins of `bin_s` seconds. Bins widen when the time outgrows them."""

    def __init__(self) -> None:
        self.bin_s = FINEST_BIN_S
        self.counts: list[int] = []

    def add(self, at: float) -> None:
        """Count one call at a time in seconds."""
        while (index := int(at / self.bin_s)) >= MAX_BINS:
            self._widen()
        self.counts += [0] * (index + 1 - len(self.counts))
        self.counts[index] += 1

    def _widen(self) -> None:
        counts = [*self.counts, 0] if len(self.counts) % 2 else self.counts
        self.counts = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
        self.bin_s *= 2


class Region:
    """The counters of one region. `counts_graphs` tells whether this torch reports graph entries."""

    def __init__(self, number: int, *, counts_graphs: bool) -> None:
        self.number = number
        self.calls = 0
        self.entered = 0
        """Number of times that the calls entered a compiled graph."""
        self.resumed = 0
        """Number of these graphs that belong to a resume function after a graph break."""
        self.changed = False
        """Whether there were calls since the last `to_event`."""
        self._counts_graphs = counts_graphs
        self._warm = 0
        self._seconds = 0.0
        self._uncompiled = 0
        self._raised = 0
        self._samples: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._activity = Activity()

    def count_call(self, at: float, seconds: float, *, warm: bool, entered: int, raised: bool) -> None:
        """Count a finished call that began `at` and entered this many graphs."""
        self.calls += 1
        self.changed = True
        self._seconds += seconds
        self._raised += raised
        self._uncompiled += self._counts_graphs and not entered and not raised
        self._activity.add(at)
        if warm:
            self._warm += 1
            self._samples.append(seconds)

    def to_event(self) -> RegionCalls:
        """Return the calls so far."""
        self.changed = False
        times = sorted(self._samples)
        low, median, high = (_quantile_us(times, q) for q in (0.1, 0.5, 0.9))
        return RegionCalls(
            region=self.number, calls=self.calls, warm=self._warm, seconds=self._seconds, sampled=len(times),
            median_us=median, low_us=low, high_us=high,
            entered=self.entered if self._counts_graphs else None,
            resumed=self.resumed if self._counts_graphs else None,
            uncompiled=self._uncompiled, raised=self._raised,
            bin_s=self._activity.bin_s, activity=tuple(self._activity.counts),
        )  # fmt: skip


def _quantile_us(times: list[float], q: float) -> float | None:
    """Return the nearest-rank quantile of sorted times, in microseconds."""
    return times[round(q * (len(times) - 1))] * 1e6 if times else None
