"""Cost and gain of compiling in one run: compile time, savings per call, break-even, the cost of guards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.config import SKIP_GUARD_EVAL
from tcexplore.session.compile_time import compile_time, compiler_runs
from tcexplore.session.history import RunSummary, summarize
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.time_ratio import Range

UNDECIDED = ("undecided", "measuring")
"""Verdicts from which no advice follows."""

DECIDED = ("faster", "slower", "no difference")
"""The other verdicts."""


@dataclass(frozen=True, slots=True)
class Payback:
    """One-time cost of compiling, and its gain with each call."""

    compile_s: float
    """Additional seconds of the calls that compiled."""
    saved_us: Range
    """Per call, negative if compiled is slower. Its interval is that of the speedup, applied to the eager median."""

    @property
    def break_even(self) -> int | None:
        """Number of calls until compiling pays off; None if nothing is saved."""
        return _calls(self.compile_s, self.saved_us.value)

    @property
    def break_even_soonest(self) -> int | None:
        """Break-even at the upper end of the interval."""
        return _calls(self.compile_s, self.saved_us.high)

    @property
    def break_even_latest(self) -> int | None:
        """Break-even at the lower end of the interval; None if nothing is saved there."""
        return _calls(self.compile_s, self.saved_us.low)

    def net_seconds(self, calls: int) -> Range:
        """Return the net gain in seconds after a number of calls, negative for a loss."""
        return Range(*(saved * calls / 1e6 - self.compile_s for saved in self.saved_us))


def payback(estimate: ev.TimingEstimate, compile_s: float) -> Payback:
    """Return the payback of a compile of `compile_s` seconds at the speedup of `estimate`."""

    def saved(speedup: float) -> float:
        return estimate.eager_us * (1 - 1 / speedup)

    return Payback(compile_s, Range(saved(estimate.speedup), saved(estimate.low), saved(estimate.high)))


def certain_loss(estimate: ev.TimingEstimate, compile_s: float, calls: int) -> Range | None:
    """Return the net loss of compiling over a number of calls, in seconds; None if it may be a gain.

    While processes are still to be timed, only that a compile is not repaid although compiled is faster is certain.
    """
    gain = most = payback(estimate, compile_s)
    if estimate.verdict == "measuring" or (estimate.verdict != "faster" and estimate.processes_to_come):
        return None
    if estimate.verdict in ("no difference", "undecided"):
        # What the noise may hide could be a gain, too.
        most = payback(replace(estimate, high=max(estimate.high, 1 + estimate.noise_floor)), compile_s)
    net, least = gain.net_seconds(calls), -most.net_seconds(calls).high
    return Range(-net.value, least, -net.low) if least > 0 else None


def _calls(compile_s: float, saved_us: float) -> int | None:
    return math.ceil(max(0.0, compile_s) * 1e6 / saved_us) if saved_us > 0 else None


@dataclass(frozen=True, slots=True)
class Economics:
    """Cost and gain of compiling; a figure that was not measured, or does not exist, is None."""

    first_call_s: float | None
    """First compiled call."""
    compile_s: float | None
    """Compile time from torch's log."""
    cost_s: float | None = None
    """Extra seconds of the calls that compiled, compared with warm ones."""
    cold_payback: Payback | None = None
    """With empty compile caches, as the cold compile study measured them; None without it."""
    warm_payback: Payback | None = None
    """With the caches of such a process; None without the study."""
    payback: Payback | None = None
    """None while there are too few pairs; its interval says how certain it is."""
    break_even_calls: int | None = None
    """None unless compiled is faster."""
    compiling_calls: int = 0
    """Number of calls that compiled."""
    cpp_kernels: int = 0
    """C++ kernels with different code."""
    kernels_cached: int = 0
    """How many of these came from the cache, at least: torch also runs the compiler for headers."""


def economics(snapshot: Snapshot) -> Economics:
    """Return the economics of a run as far as they are known."""
    compiled = [call for call in snapshot.calls if call.variant == "compiled"]
    roots = [phase.seconds for phase in snapshot.phase_times if phase.depth == 0]
    cost, timing, cold = _cost_s(snapshot), snapshot.timing, snapshot.cold_compile

    def payback_of(seconds: float | None) -> Payback | None:
        timed = timing is not None and timing.verdict != "measuring"
        return payback(timing, seconds) if timing is not None and timed and seconds is not None else None

    gain = payback_of(cost)
    cpp = {kernel.source for kernel in snapshot.code.kernels if kernel.language == "cpp"}
    return Economics(
        first_call_s=compiled[0].seconds if compiled else None,
        compile_s=sum(roots) if roots else None,
        cost_s=cost,
        payback=gain,
        cold_payback=payback_of(_extra_s(timing, cold.seconds, cold.calls)) if cold is not None else None,
        warm_payback=payback_of(_extra_s(timing, cold.warm_seconds, cold.calls)) if cold is not None else None,
        break_even_calls=gain.break_even if gain and timing and timing.verdict == "faster" else None,
        compiling_calls=1 + summarize(snapshot).recompiles
        if snapshot.is_script
        else sum(call.compiles > 0 for call in compiled),
        cpp_kernels=len(cpp),
        kernels_cached=max(0, len(cpp) - len(compiler_runs(compile_time(snapshot).roots))) if cpp else 0,
    )


def script_steps(snapshot: Snapshot) -> int | None:
    """Return about how many steps a script has; None if it has none that are timed, or did not end by itself.

    Not all of its steps are observed, but all calls of its regions are counted.
    """
    steps, end = snapshot.steps, snapshot.script_end
    if steps is None or end is None or end.time_limit is not None or snapshot.failure:
        return None
    calls = {seen.region: seen.calls + seen.eager for seen in snapshot.region_calls}
    made = [calls.get(region.region, 0) / region.calls for region in steps.regions if region.calls]
    return round(max(made, default=0) / (steps.repeats + 1)) or None


def _cost_s(snapshot: Snapshot) -> float | None:
    """Return the extra seconds of the calls that compile; None before they are timed, or if none compiles."""
    compiling = _compiling(snapshot)
    return _extra_s(snapshot.timing, *compiling) if compiling is not None else None


def cold_compile(cold: Snapshot, warm: Snapshot | None) -> ev.ColdCompile | None:
    """Return the compile in a new process with empty caches, and in the one after it; None if the first compiled none.

    A run that failed does not count.
    """
    compiling = _compiling(cold)
    if cold.failure is not None or compiling is None:
        return None
    seconds, calls = compiling
    warm_s, _ = (_compiling(warm) or (0.0, 0)) if warm is not None and warm.failure is None else (None, 0)
    return ev.ColdCompile(seconds=seconds, calls=calls, warm_seconds=warm_s)


def _compiling(run: Snapshot) -> tuple[float, int] | None:
    """Return the seconds of the calls that compile, and their number; None if none does.

    The calls of a script are its own: the time in torch's log is what compiling adds to its steps, in no call.
    """
    if run.is_script:
        compiles = [phase.seconds for phase in run.phase_times if phase.depth == 0]
        return (sum(compiles), 0) if compiles else None
    calls = [call.seconds for call in run.calls if call.variant == "compiled" and call.compiles]
    return (sum(calls), len(calls)) if calls else None


def _extra_s(timing: ev.TimingEstimate | None, seconds: float | None, calls: int) -> float | None:
    """Return seconds in which some calls compile, without those of as many warm calls."""
    if timing is None or seconds is None:
        return None
    return max(0.0, seconds - calls * timing.compiled_us / 1e6)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a finished run."""

    run: Snapshot
    cold: Snapshot | None = None
    """Its first call alone, in a new process with empty caches; None if that was not tried."""

    @property
    def failure(self) -> str:
        """Why the run failed; empty if it did not."""
        failed = self.run.failure
        return "" if failed is None else f"{failed.type}: {failed.message.strip().partition(chr(10))[0]}"

    @property
    def summary(self) -> RunSummary:
        return summarize(self.run)

    @property
    def compile_s(self) -> float | None:
        """Compile time from torch's log."""
        return economics(self.run).compile_s

    @property
    def first_call_s(self) -> float | None:
        """Duration of the first compiled call."""
        return economics(self.run).first_call_s

    @property
    def cold_s(self) -> float | None:
        """Duration of the first compiled call in a new process."""
        return economics(self.cold).first_call_s if self.cold and not self.cold.failure else None

    @property
    def max_abs(self) -> float | None:
        """The largest difference to eager."""
        return self.run.accuracy.max_abs if self.run.accuracy else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory of a compiled call."""
        return self.run.memory.compiled_peak if self.run.memory else None


def is_faster(figures: RunFigures) -> bool:
    """Return whether compiled is faster than eager, with a correct result."""
    return figures.run.timing is not None and figures.run.timing.verdict == "faster" and not figures.summary.wrong


def may_be_faster(figures: RunFigures) -> bool:
    """Return whether compiled may be faster, but the verdict is open."""
    timing = figures.run.timing
    return timing is not None and timing.verdict in UNDECIDED and timing.high > 1


VISIBLE_GUARD_SHARE = 0.05
"""Share of a compiled call that guards must take to be worth a filter."""

GUARD_FILTERS = ("skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_all_nn_modules_unsafe", SKIP_GUARD_EVAL)
"""Filters to try, the safest first."""


class GuardCost(NamedTuple):
    """Time of the guards of one compiled call."""

    us: float
    share: float
    """Share of the call."""
    cold: bool
    """Whether this is torch's own time of one check with cold caches after the compile; warm checks are faster."""
    shares: tuple[float, float]
    """The least and the greatest share in the profiled calls."""

    @property
    def disturbed(self) -> bool:
        """Whether the share varies so much from call to call that it is no figure."""
        low, high = self.shares
        return high - low > VISIBLE_GUARD_SHARE and high > STEADY * low


STEADY = 2.0
"""Ratio of the greatest to the least share up to which it is one figure."""


def guard_cost(run: Snapshot) -> GuardCost | None:
    """Return the time of guards in warm calls, or else of torch's cold check; None if neither is known."""
    if (account := run.call_account) is not None and account.total_us:
        us, total = account.us("guards"), account.total_us
        guards = [part for part in account.parts if part.kind == "guards"]
        shares = sum(part.low_us for part in guards) / total, sum(part.high_us for part in guards) / total
        return GuardCost(us, us / total, cold=False, shares=shares)
    spent, timing = _cold_us(run), run.timing
    if timing is None or timing.verdict not in DECIDED or not timing.compiled_us or not spent:
        return None
    share = spent / timing.compiled_us
    return GuardCost(spent, share, cold=True, shares=(share, share))


def _cold_us(run: Snapshot) -> float:
    """Return the time to check the guards of all frames once, each frame with its slowest entry."""
    slowest: dict[str, float] = {}
    for installed in run.guards:
        frame = installed.graph.partition("/")[0]
        slowest[frame] = max(slowest.get(frame, 0.0), installed.latency_us or 0.0)
    return sum(slowest.values())


def needs_guard_filter(run: Snapshot) -> bool:
    """Return whether the guards of a run take a visible share of a call."""
    cost = guard_cost(run)
    return cost is not None and cost.share >= VISIBLE_GUARD_SHARE
