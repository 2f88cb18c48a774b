"""What a compile costs once, what it saves with each call, and from which call on it has paid for itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore.events import TimingEstimate


class Range(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Payback:
    """What compiling costs once and what it saves with each call.

    `compile_s` is what the compiling calls took longer than warm ones, in seconds. `saved_us` is per call, in
    microseconds, negative where compiled is slower; its interval is that of the speed-up, applied to the eager median.
    """

    compile_s: float
    saved_us: Range

    @property
    def break_even(self) -> int | None:
        """Calls after which the time saved makes up for the compile; None where nothing is saved."""
        return _calls(self.compile_s, self.saved_us.value)

    @property
    def break_even_soonest(self) -> int | None:
        """The same if the saving is as large as its interval allows."""
        return _calls(self.compile_s, self.saved_us.high)

    @property
    def break_even_latest(self) -> int | None:
        """The same if the saving is as small as its interval allows; None if that is no saving at all."""
        return _calls(self.compile_s, self.saved_us.low)

    def net_seconds(self, calls: int) -> Range:
        """Seconds won (negative: lost) after so many calls, the compile paid for."""
        return Range(*(saved * calls / 1e6 - self.compile_s for saved in self.saved_us))


def payback(estimate: TimingEstimate, compile_s: float) -> Payback:
    """The payback of a compile of `compile_s` seconds, 0 or more, at the speed-up of `estimate`."""

    def saved(speedup: float) -> float:
        return estimate.eager_us * (1 - 1 / speedup)

    return Payback(compile_s, Range(saved(estimate.speedup), saved(estimate.low), saved(estimate.high)))


def _calls(compile_s: float, saved_us: float) -> int | None:
    return math.ceil(max(0.0, compile_s) * 1e6 / saved_us) if saved_us > 0 else None
