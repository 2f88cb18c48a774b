"""Notes on limits of a measurement's reliability."""

from __future__ import annotations

import math
from collections.abc import Callable

from tcexplore.events import TimingEstimate
from tcexplore.quantities import count, duration
from tcexplore.timing.samples import Conditions
from tcexplore.timing.steady_state import DUTY, FULL_SPEED_S, MAX_SPREAD
from tcexplore.timing.timing_verdict import MIN_PAIRS, is_crowded

DRIFT = 0.02
MANY_OUTLIERS = 0.10
HIGH_FLOOR = 0.10

Note = Callable[[TimingEstimate, Conditions], str]


def timing_notes(estimate: TimingEstimate, conditions: Conditions) -> tuple[str, ...]:
    """Return every note that applies, most important first."""
    return tuple(text for note in _NOTES if (text := note(estimate, conditions)))


def _slow(e: TimingEstimate, _: Conditions) -> str:
    if e.verdict == "measuring" or e.pairs >= MIN_PAIRS:
        return ""
    return f"Calls are slow: based on {e.pairs} pairs only; more time refines the estimate"


def _noise(e: TimingEstimate, _: Conditions) -> str:
    if e.control_pairs == 0 or e.noise_floor <= HIGH_FLOOR:
        return ""
    return f"Noise: eager vs. itself varies by up to {e.noise_floor:.0%}; smaller differences can't be detected"


def _busy(e: TimingEstimate, c: Conditions) -> str:
    if c.busy_cores is None or not is_crowded(c.busy_cores, e.threads, c.cores):
        return ""
    free = max(1, math.floor(c.cores - c.busy_cores))
    advice = f". --threads {free} is steadier" if free < e.threads else ""
    return f"Other programs use {c.busy_cores:.1f} of {c.cores} cores: both sides take longer, and wait{advice}"


def _drift(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_halves_us), ("compiled", e.compiled_halves_us))
    drifts = [
        f"{side} {duration(halves[0] / 1e6)} → {duration(halves[1] / 1e6)}"
        for side, halves in sides
        if halves and abs(halves[1] / halves[0] - 1) > DRIFT
    ]
    if not drifts:
        return ""
    return f"Drift between the first and second half: {', '.join(drifts)}. Interleaving cancels most of it"


def _outliers(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_outliers), ("compiled", e.compiled_outliers))
    many = [f"{n / e.pairs:.0%} of {side} blocks" for side, n in sides if n > MANY_OUTLIERS * e.pairs]
    return f"Outliers: {' and '.join(many)} (included; medians are robust)" if many else ""


def _discarded(e: TimingEstimate, _: Conditions) -> str:
    return f"{count(e.pairs_discarded, 'pair')} discarded because of recompilation" if e.pairs_discarded else ""


def _unstable(_: TimingEstimate, c: Conditions) -> str:
    if c.warm_up_spread <= MAX_SPREAD:
        return ""
    return f"Warm-up had not stabilized (last rounds differed by {c.warm_up_spread:.0%})"


def _resets(e: TimingEstimate, c: Conditions) -> str:
    if not c.resets:
        return ""
    action = "Gradients are cleared and mutated inputs restored" if e.train else "Mutated inputs are restored"
    return f"{action} before each unit; this is not timed"


def _one_process(e: TimingEstimate, _: Conditions) -> str:
    if e.processes_to_come and e.processes_timed == 1:
        return "Of one process so far: others may differ by more than the interval"
    return ""


def _memory_returned(e: TimingEstimate, _: Conditions) -> str:
    other = e.differing_memory_returned
    if other is None:
        return ""
    return (
        f"Memory: freed memory was kept for the next call. Returned to the system, as glibc does by default, an eager "
        f"call takes {duration(other.eager_us / 1e6)} ({count(round(other.eager_page_faults), 'page fault')}) and a "
        f"compiled one {duration(other.compiled_us / 1e6)} ({other.compiled_page_faults:,.0f}): "
        f"{other.speedup:.2f}× [{other.low:.2f}, {other.high:.2f}]"
    )


def _warm_caches(e: TimingEstimate, _: Conditions) -> str:
    return "" if e.device == "cpu" else "Same inputs for every call: the device's L2 cache is warm"


def _governor(_: TimingEstimate, c: Conditions) -> str:
    fixed = c.governor in ("", "performance")
    return "" if fixed else f"CPU frequency is not fixed (governor {c.governor})"


def _reserved_core(_: TimingEstimate, c: Conditions) -> str:
    return "" if c.reserved_core is None else f"Core {c.reserved_core} is reserved for the terminal app"


def _old_pairs(e: TimingEstimate, _: Conditions) -> str:
    if e.pairs_taken <= e.pairs:
        return ""
    return (
        f"Only the newest {e.pairs:,} of {e.pairs_taken:,} pairs count; after {FULL_SPEED_S:.0f} s or {e.pairs:,} "
        f"pairs, measuring pauses at least {1 - DUTY:.0%} of the time"
    )


_NOTES: tuple[Note, ...] = (
    _slow, _noise, _busy, _drift, _outliers, _discarded, _unstable, _resets,
    _one_process, _memory_returned,
    _warm_caches, _governor, _reserved_core, _old_pairs,
)  # fmt: skip
