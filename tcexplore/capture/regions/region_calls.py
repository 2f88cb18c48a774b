"""One compiled region: its calls, added up."""

from __future__ import annotations

from collections import deque

from tcexplore.capture.regions.activity import Activity
from tcexplore.events import RegionCalls

SAMPLES = 512
"""Warm calls whose times are kept for the median."""


class Region:
    """What is known of a region; `seen` is all of it as an event. `counts_graphs` tells whether entries are counted."""

    def __init__(self, number: int, *, counts_graphs: bool) -> None:
        self.number = number
        self.calls = 0
        self.entered = 0
        self.resumed = 0
        self.dirty = False
        self._counts_graphs = counts_graphs
        self._warm = 0
        self._seconds = 0.0
        self._uncompiled = 0
        self._raised = 0
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._activity = Activity()

    def called(self, at: float, seconds: float, *, warm: bool, entered: int, raised: bool) -> None:
        """A call that is over: when it began, how long it took, how many graphs it ran."""
        self.calls += 1
        self.dirty = True
        self._seconds += seconds
        self._raised += raised
        self._uncompiled += self._counts_graphs and not entered and not raised
        self._activity.add(at)
        if warm:
            self._warm += 1
            self._samples.append(seconds)

    def seen(self) -> RegionCalls:
        """The calls so far."""
        self.dirty = False
        times = sorted(self._samples)
        low, median, high = (_quantile(times, q) for q in (0.1, 0.5, 0.9))
        return RegionCalls(
            region=self.number, calls=self.calls, warm=self._warm, seconds=self._seconds, sampled=len(times),
            median_us=median, low_us=low, high_us=high,
            entered=self.entered if self._counts_graphs else None,
            resumed=self.resumed if self._counts_graphs else None,
            uncompiled=self._uncompiled, raised=self._raised,
            bin_s=self._activity.bin_s, activity=tuple(self._activity.counts),
        )  # fmt: skip


def _quantile(times: list[float], q: float) -> float | None:
    """The nearest time of sorted ones in seconds, in microseconds."""
    return times[round(q * (len(times) - 1))] * 1e6 if times else None
