"""Compile it or leave it: one sentence, and why."""

from __future__ import annotations

from tcexplore.events import TimingEstimate
from tcexplore.quantities import count, duration, rounded
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.payback import Payback, payback
from tcexplore.session.run_summary import wrong_result

TELLING = 1.2
"""Break-even points that differ by less are told as one."""

WRONG = "Leave it eager until its result is right: L finds the layer, and so does `tcexplore blame`."


def recommend(snapshot: Snapshot, calls: int | None = None) -> str:
    """The recommendation for a run; empty where it has no verdict, or compiled nothing."""
    costs = economics(snapshot)
    if snapshot.timing is None or costs.cost_s is None:
        return ""
    if wrong_result(snapshot):
        return WRONG
    return format_recommendation(snapshot.timing, costs.cost_s, calls, anew=costs.compiling_calls - 1)


def format_reservation(snapshot: Snapshot) -> str:
    """Why the cost of the compile may be another one the next time; empty where nothing is known against it."""
    costs = economics(snapshot)
    if costs.cost_s is None or not costs.kernels_cached:
        return ""
    return "Its C++ kernels were found on disk, left there by an earlier run: compiling them too takes longer."


def format_recommendation(
    estimate: TimingEstimate, compile_s: float, calls: int | None = None, *, anew: int = 0
) -> str:
    """One sentence: compile or not, and why; for a number of `calls` where one is asked for. The cost is that of the
    first compile and of `anew` calls that compiled again.

    Empty while there is no verdict.
    """
    gain = payback(estimate, compile_s)
    if estimate.verdict == "slower":
        longer = f"{duration(-gain.saved_us.value / 1e6)} longer{_mean(estimate.calls)}"
        return f"Leave it eager: a compiled call takes {longer}, so its compile never pays for itself."
    if estimate.verdict == "no difference":
        return f"Leave it eager: compiling costs {duration(compile_s)} and saves nothing that can be measured here."
    if estimate.verdict == "undecided":
        return f"Cannot tell whether compiling pays: the measurement is too noisy for a verdict. {suggest_less_noise(estimate)}"
    if estimate.verdict != "faster":
        return ""
    return _at_any_number(gain, estimate.calls, anew) if calls is None else _at(gain, calls)


def suggest_less_noise(estimate: TimingEstimate) -> str:
    """What helps where the noise is too large."""
    fewer = ", and --threads 1, where no thread waits for another" if _threaded(estimate) else ""
    return f"A quiet machine helps{fewer}."


def _threaded(estimate: TimingEstimate) -> bool:
    return estimate.device == "cpu" and estimate.threads > 1


def _at_any_number(payback: Payback, calls: int, anew: int) -> str:
    saved = f"saves {duration(payback.saved_us.value / 1e6)} a call{_mean(calls)}"
    if not payback.break_even:
        return f"Compile it: it {saved}, and the calls that compiled took no longer than the others."
    again = f", compiling again {count(anew, 'time')} included," if anew > 0 else ""
    why = f"that costs {duration(payback.compile_s)}{again} and {saved}"
    return f"Compile it if it is called more than about {rounded(payback.break_even)} times{_between(payback)}: {why}."


def _between(payback: Payback) -> str:
    """How much fewer or more it may be, where that is another number."""
    soonest, latest = payback.break_even_soonest, payback.break_even_latest
    if not soonest or not latest or latest <= TELLING * soonest:
        return ""
    return f" ({rounded(soonest)} to {rounded(latest)})"


def _mean(calls: int) -> str:
    """What a call is where the file makes several that differ."""
    return f" (the mean of the file's {calls})" if calls > 1 else ""


def _at(payback: Payback, calls: int) -> str:
    net = payback.net_seconds(calls)
    pays = f"compiling pays for itself after about {rounded(payback.break_even or 0)}"
    if net.low > 0:
        return f"Compile it: over {calls:,} calls that wins {duration(net.value)}; {pays}."
    if net.high < 0:
        return f"Leave it eager for {calls:,} calls: that would lose {duration(-net.value)}; {pays}."
    return f"For {calls:,} calls it makes no difference that can be told; {pays}."
