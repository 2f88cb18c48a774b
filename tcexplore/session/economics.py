"""What compiling cost in one run and whether it has paid for itself, from what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.compile_time import compile_time, files_compiled
from tcexplore.session.snapshot import Snapshot


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


def payback(estimate: ev.TimingEstimate, compile_s: float) -> Payback:
    """The payback of a compile of `compile_s` seconds, 0 or more, at the speed-up of `estimate`."""

    def saved(speedup: float) -> float:
        return estimate.eager_us * (1 - 1 / speedup)

    return Payback(compile_s, Range(saved(estimate.speedup), saved(estimate.low), saved(estimate.high)))


def _calls(compile_s: float, saved_us: float) -> int | None:
    return math.ceil(max(0.0, compile_s) * 1e6 / saved_us) if saved_us > 0 else None


@dataclass(frozen=True, slots=True)
class Economics:
    """Seconds, and calls of the model; a figure that was not measured, or does not exist, is None.

    `first_call_s` is the first compiled call, `compile_s` the time that torch's own log gives for compiling.
    `cost_s` is how much longer the calls that compiled took than warm ones would have, and `payback` what follows
    from it. `break_even_calls` is the payback's; None unless compiled is faster. `compiling_calls` are so many calls
    that compiled, and `kernels_found` tells that the C++ compiler had nothing to do for the kernels: an earlier run
    left them on disk.
    """

    first_call_s: float | None
    compile_s: float | None
    cost_s: float | None = None
    payback: Payback | None = None
    break_even_calls: int | None = None
    compiling_calls: int = 0
    kernels_cached: bool = False


def economics(snapshot: Snapshot) -> Economics:
    """The economics of a run, as far as they are known."""
    compiled = [call for call in snapshot.calls if call.variant == "compiled"]
    roots = [phase.seconds for phase in snapshot.phase_times if phase.depth == 0]
    timing, cost = snapshot.timing, _cost_s(snapshot)
    found = payback(timing, cost) if timing is not None and cost is not None else None
    return Economics(
        first_call_s=compiled[0].seconds if compiled else None,
        compile_s=sum(roots) if roots else None,
        cost_s=cost,
        payback=found,
        break_even_calls=found.break_even if found and timing and timing.verdict == "faster" else None,
        compiling_calls=sum(call.compiles > 0 for call in compiled),
        kernels_cached=_kernels_found(snapshot),
    )


def _kernels_found(snapshot: Snapshot) -> bool:
    own = any(kernel.language == "cpp" for kernel in snapshot.code.kernels)
    return own and not files_compiled(compile_time(snapshot).roots)


def _cost_s(snapshot: Snapshot) -> float | None:
    compiling = [call.seconds for call in snapshot.calls if call.variant == "compiled" and call.compiles]
    if snapshot.timing is None or not compiling:
        return None
    return max(0.0, sum(compiling) - len(compiling) * snapshot.timing.compiled_us / 1e6)
