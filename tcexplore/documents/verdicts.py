"""The verdict of a timing: as a mark next to its figure, readable without colors, and as advice to compile or not."""

from __future__ import annotations

from tcexplore.documents.document import Span
from tcexplore.events import TimingEstimate
from tcexplore.events.timing_events import MemoryReturned, TimedUnit
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, factor_range, rounded
from tcexplore.session import Snapshot
from tcexplore.session.economics import Payback, RunFigures, certain_loss, economics, payback
from tcexplore.session.history import wrong_result

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "measuring": "?"}

VERDICT_STYLES = {"faster": "faster", "slower": "slower", "no difference": "strong"}

LEGEND = "▲ faster, ▼ slower, = no difference above the noise, ? undecided"


def format_speedup(timing: TimingEstimate | MemoryReturned) -> str:
    """Return `1.31× ▲`; an undecided figure stands next to its interval."""
    return f"{timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}"


def speedup_span(timing: TimingEstimate | MemoryReturned) -> Span:
    """Return `format_speedup` in the style of its verdict."""
    return Span(format_speedup(timing), VERDICT_STYLES.get(timing.verdict, "muted"))


WIDEST = 1000.0
"""Ends of an interval that are shown: a speedup is not larger, and not smaller than 1 over it."""


def format_interval(timing: TimingEstimate | MemoryReturned) -> str:
    """Return `1.46× [1.31, 1.60]`."""
    return f"{timing.speedup:.2f}× {interval_text(timing)}"


def interval_text(timing: TimingEstimate | MemoryReturned) -> str:
    """Return `[1.31, 1.60]`; no figures for one that is too wide to say anything, as that of two pairs."""
    if timing.high > WIDEST or timing.low < 1 / WIDEST:
        return "[too few pairs]"
    return factor_range(timing.low, timing.high)


VARIED = 1.03
"""Ratio of the medians over the speedup from which on the difference is explained: who divides the times sees it."""


def of_medians(timing: TimingEstimate) -> float | None:
    """Return the ratio of both medians if it is another than the speedup, which is that of calls next to each other."""
    ratio = timing.eager_us / timing.compiled_us
    return None if 1 / VARIED <= ratio / timing.speedup <= VARIED else ratio


def so_far(timing: TimingEstimate) -> str:
    """Return ` so far` while other processes are still to be timed."""
    return " so far" if timing.processes_to_come else ""


LEAST_NOISE = 0.01
"""Noise that is named: a smaller difference counts in no case."""


def describe_noise(timing: TimingEstimate) -> str:
    """Return why there is no difference although the interval excludes it; empty where that is not so."""
    decided = timing.verdict not in ("undecided", "no difference") or timing.low <= 1 <= timing.high
    explained = max(timing.speedup, 1 / timing.speedup) - 1 <= timing.noise_floor
    if decided or not explained or timing.noise_floor < LEAST_NOISE:
        return ""
    return f"eager against itself varies by up to {timing.noise_floor:.0%}: the difference may be noise"


def format_outcome(cell: RunFigures) -> str:
    """Return `faster, 1.31× [1.28, 1.34]`, or why there is no figure."""
    timing = cell.run.timing
    if cell.failure:
        return f"✖ {cell.failure}"
    if timing is None:
        return "done"
    figures = format_interval(timing)
    if timing.load:
        figures += f" {timing.load}"
    if noise := describe_noise(timing):
        figures += f" ({noise})"
    if timing.verdict == "measuring":
        return f"too few pairs for a verdict, {figures}"
    return f"{timing.verdict}, {figures}"


# ---- the recommendation


DISTINCT = 1.2
"""Minimum ratio of two break-even points to show both."""


def recommend(snapshot: Snapshot, calls: int | None = None) -> str:
    """Return the recommendation for a run, empty if it has no verdict or compiled nothing."""
    costs = economics(snapshot)
    if snapshot.timing is None or costs.cost_s is None:
        return ""
    if wrong_result(snapshot):
        stage = f"`tcexplore bisect` ({hint('bisect')}) finds the compiler stage"
        return f"Not worth compiling until the result is right; {stage}."
    advice = format_recommendation(snapshot.timing, costs.cost_s, calls, recompiles=costs.compiling_calls - 1)
    other = snapshot.timing.differing_memory_returned
    if not advice or other is None or other.verdict == snapshot.timing.verdict:
        return advice
    return f"{advice} If freed memory is returned to the system: {other.verdict}, {format_interval(other)}."


def format_reservation(snapshot: Snapshot) -> str:
    """Return what a compile with empty caches takes and when it pays off, or why it may take longer than this one.

    It is empty if no reason is known.
    """
    costs = economics(snapshot)
    if costs.cost_s is None:
        return ""
    if costs.cold_payback is not None and snapshot.timing is not None:
        text = _with_caches("empty caches", costs.cold_payback, snapshot.timing, snapshot.expected_calls)
        if costs.warm_payback is None:
            return text
        warm = _with_caches("those of an earlier start", costs.warm_payback, snapshot.timing, snapshot.expected_calls)
        return f"{text} {warm}"
    reasons = []
    if cached := costs.kernels_cached:
        some = cached < costs.cpp_kernels
        which = f"at least {cached} of {count(costs.cpp_kernels, 'C++ kernel')}" if some else "C++ kernels"
        reasons.append(f"{which} came from the cache")
    if snapshot.compiler_loaded is not None:
        reasons.append("the process had loaded the compiler before")
    text = " and ".join(reasons)
    return f"{text[0].upper()}{text[1:]}: a cold compile takes longer." if reasons else ""


def _with_caches(caches: str, gain: Payback, timing: TimingEstimate, calls: int | None) -> str:
    text = f"With {caches}, compiling takes {duration(gain.compile_s)}"
    if timing.verdict != "faster":
        return f"{text}."
    if calls is None:
        return f"{text}: {_pays(gain, timing.unit)}{_between(gain)}."
    net = gain.net_seconds(calls)
    outcome = f"net {'gain' if net.value > 0 else 'loss'} {duration(abs(net.value))}"
    if net.low <= 0 <= net.high:
        outcome = "no measurable net gain"
    return f"{text}: {outcome} over {calls:,} {timing.unit}s, {_pays(gain, timing.unit)}."


def format_recommendation(
    estimate: TimingEstimate, compile_s: float, calls: int | None = None, *, recompiles: int = 0
) -> str:
    """Return whether compiling is worth it, and why; empty without a verdict.

    The answer is for a number of `calls` if there is one. `compile_s` is the time of the first
    compile and the `recompiles`.
    """
    gain = payback(estimate, compile_s)
    if estimate.verdict == "slower":
        longer = f"{duration(-gain.saved_us.value / 1e6)} longer{_mean(estimate.calls)}"
        return f"Not worth compiling: a compiled {estimate.unit} takes {longer}."
    loss = certain_loss(estimate, compile_s, calls) if calls is not None else None
    if loss is not None:
        text = f"net loss {duration(loss.value)}, at least {duration(loss.low)}"
        if estimate.verdict == "faster":
            text = f"net loss {duration(loss.value)}; {_pays(gain, estimate.unit)}"
        return f"Not worth compiling for {calls:,} {estimate.unit}s: {text}."
    if estimate.verdict == "no difference" and calls is not None:
        return f"No measurable difference: {_likely_net(gain, calls, estimate.unit)}."
    if estimate.verdict == "no difference":
        return _no_difference(gain, estimate.calls, estimate.unit)
    if estimate.verdict == "undecided":
        guess = _best_guess(gain, estimate.unit) if calls is None else _likely_net(gain, calls, estimate.unit)
        return f"Undecided: {guess}. {suggest_less_noise(estimate)}"
    if estimate.verdict != "faster":
        return ""
    unit = estimate.unit
    return _at_any_number(gain, estimate.calls, recompiles, unit) if calls is None else _at(gain, calls, unit)


def _no_difference(gain: Payback, calls: int, unit: TimedUnit) -> str:
    """Return what compiling costs, and what it saves at most: a small gain may matter over many calls."""
    costs = f"No measurable difference: compiling takes {duration(gain.compile_s)}"
    if not gain.break_even_soonest:
        return f"{costs} and saves nothing."
    saved = f"{duration(gain.saved_us.high / 1e6)} per {unit}{_mean(calls)}"
    earliest = f"~{rounded(gain.break_even_soonest)} {unit}s"
    return f"{costs}; it saves at most {saved}, and pays off after {earliest} at the earliest."


def _best_guess(gain: Payback, unit: TimedUnit) -> str:
    """Return the most likely break-even point of an undecided timing."""
    if not gain.break_even:
        return "compiling most likely saves nothing, but it may"
    soonest = f"; at the soonest after ~{rounded(gain.break_even_soonest)}" if gain.break_even_soonest else ""
    return f"compiling most likely pays off after ~{rounded(gain.break_even)} {unit}s, but it may never{soonest}"


def _likely_net(gain: Payback, calls: int, unit: TimedUnit) -> str:
    """Return the most likely net gain of a number of calls of a timing that favors no side, and its interval."""
    net = gain.net_seconds(calls)
    likely, least, most = map(duration, net)
    return f"over {calls:,} {unit}s, the net gain is most likely {likely}, within [{least}, {most}]"


def suggest_less_noise(estimate: TimingEstimate) -> str:
    """Return what reduces the noise."""
    fewer = ", and so does --threads 1" if _threaded(estimate) else ""
    return f"A quiet machine helps{fewer}."


def _threaded(estimate: TimingEstimate) -> bool:
    return estimate.device == "cpu" and estimate.threads > 1


def _at_any_number(payback: Payback, calls: int, recompiles: int, unit: TimedUnit) -> str:
    saved = f"saves {duration(payback.saved_us.value / 1e6)} per {unit}{_mean(calls)}"
    if not payback.break_even:
        return f"Worth compiling: it {saved}, and the first {unit}s took no longer than the others."
    again = f" ({count(recompiles, 'recompile')} included)" if recompiles > 0 else ""
    calls_needed = f"~{rounded(payback.break_even)} {unit}s{_between(payback)}"
    return f"Break-even: {calls_needed}. Compiling takes {duration(payback.compile_s)}{again} and {saved}."


def _between(payback: Payback) -> str:
    """Return the range of the break-even point, empty if it is narrow."""
    soonest, latest = payback.break_even_soonest, payback.break_even_latest
    if not soonest or not latest or latest <= DISTINCT * soonest:
        return ""
    return f" ({rounded(soonest)} to {rounded(latest)})"


def _mean(calls: int) -> str:
    """Return that the time is a mean, if the file makes several calls."""
    return f" (mean of {calls} calls)" if calls > 1 else ""


def _at(payback: Payback, calls: int, unit: TimedUnit) -> str:
    """Return the net gain of a compile that is not a certain loss."""
    net, pays = payback.net_seconds(calls), _pays(payback, unit)
    if net.low > 0:
        return f"Worth compiling for {calls:,} {unit}s: net gain {duration(net.value)}; {pays}."
    return f"No measurable net gain over {calls:,} {unit}s; {pays}."


def _pays(payback: Payback, unit: TimedUnit) -> str:
    return f"break-even at ~{rounded(payback.break_even or 0)} {unit}s"
