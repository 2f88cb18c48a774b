"""Compile it or leave it: one sentence, and why."""

from __future__ import annotations

from tcexplore.events import TimingEstimate
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.payback import Payback, payback
from tcexplore.words.quantities import duration, rounded


def advice(snapshot: Snapshot, calls: int | None = None) -> str:
    """The recommendation for a run; empty where it has no verdict, or compiled nothing."""
    cost = economics(snapshot).cost_s
    return recommendation(snapshot.timing, cost, calls) if snapshot.timing and cost is not None else ""


def recommendation(estimate: TimingEstimate, compile_s: float, calls: int | None = None) -> str:
    """One sentence: compile or not, and why; for a number of `calls` where one is asked for.

    Empty while there is no verdict.
    """
    found = payback(estimate, compile_s)
    if estimate.verdict == "slower":
        longer = f"{duration(-found.saved_us.value / 1e6)} longer{_mean(estimate.calls)}"
        return f"Leave it eager: a compiled call takes {longer}."
    if estimate.verdict == "no difference":
        return f"Leave it eager: compiling costs {duration(compile_s)} and saves nothing that can be measured here."
    if estimate.verdict == "undecided":
        return "Cannot tell whether compiling pays: the measurement is too noisy for a verdict. A quiet machine helps."
    if estimate.verdict != "faster":
        return ""
    return _at_any_number(found, estimate.calls) if calls is None else _at(found, calls)


def _at_any_number(found: Payback, calls: int) -> str:
    saved = f"saves {duration(found.saved_us.value / 1e6)} a call{_mean(calls)}"
    why = f"that costs {duration(found.compile_s)} and {saved}"
    return f"Compile it if it is called more than about {rounded(found.break_even or 0)} times: {why}."


def _mean(calls: int) -> str:
    """What a call is where the file makes several that differ."""
    return f" (the mean of the file's {calls})" if calls > 1 else ""


def _at(found: Payback, calls: int) -> str:
    net = found.net_seconds(calls)
    pays = f"compiling pays for itself after about {rounded(found.break_even or 0)}"
    if net.low > 0:
        return f"Compile it: over {calls:,} calls that wins {duration(net.value)}; {pays}."
    if net.high < 0:
        return f"Leave it eager for {calls:,} calls: that would lose {duration(-net.value)}; {pays}."
    return f"For {calls:,} calls it makes no difference that can be told; {pays}."
