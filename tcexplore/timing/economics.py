"""Whether compiling pays for itself, and from which call on. Pure arithmetic on what was measured; no torch."""

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


def recommendation(estimate: TimingEstimate, compile_s: float, calls: int | None = None) -> str:
    """One sentence: compile or not, and why; for a number of `calls` where one is asked for.

    Empty while there is no verdict.
    """
    found = payback(estimate, compile_s)
    if estimate.verdict == "slower":
        return f"Leave it eager: a compiled call takes {_duration(-found.saved_us.value / 1e6)} longer."
    if estimate.verdict == "no difference":
        return f"Leave it eager: compiling costs {_duration(compile_s)} and saves nothing that can be measured here."
    if estimate.verdict != "faster":
        return ""
    return _at_any_number(found) if calls is None else _at(found, calls)


def _at_any_number(found: Payback) -> str:
    why = f"that costs {_duration(found.compile_s)} and saves {_duration(found.saved_us.value / 1e6)} a call"
    return f"Compile it if it is called more than about {_rounded(found.break_even or 0)} times: {why}."


def _at(found: Payback, calls: int) -> str:
    net = found.net_seconds(calls)
    pays = f"compiling pays for itself after about {_rounded(found.break_even or 0)}"
    if net.low > 0:
        return f"Compile it: over {calls:,} calls that wins {_duration(net.value)}; {pays}."
    if net.high < 0:
        return f"Leave it eager for {calls:,} calls: that would lose {_duration(-net.value)}; {pays}."
    return f"For {calls:,} calls it makes no difference that can be told; {pays}."


def _calls(compile_s: float, saved_us: float) -> int | None:
    return math.ceil(max(0.0, compile_s) * 1e6 / saved_us) if saved_us > 0 else None


def _rounded(count: int) -> str:
    """Three figures of a number that has no more to it."""
    digits = max(0, len(str(count)) - 3)
    return f"{round(count, -digits):,}"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
