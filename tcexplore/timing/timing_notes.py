"""What one has to know about a measurement before believing it, in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from tcexplore.events import TimingEstimate
from tcexplore.quantities import duration
from tcexplore.timing.conditions import Conditions
from tcexplore.timing.pace import DUTY, FULL_SPEED_S
from tcexplore.timing.steady_state import FLAT_WITHIN
from tcexplore.timing.timing_verdict import FEWEST_PAIRS

DRIFT = 0.02
MANY_OUTLIERS = 0.10
LOUD_FLOOR = 0.10
LAUNCH_BOUND = 0.7
"""A device that works less than this share of a call's time waits for launches."""

BUSY_MARGIN = 0.5
"""Cores by which demand must exceed what the machine has before that is worth a word."""

Note = Callable[[TimingEstimate, Conditions], str]


def notes(estimate: TimingEstimate, conditions: Conditions) -> tuple[str, ...]:
    """Every note that applies, the ones that weigh most first."""
    return tuple(said for note in _NOTES if (said := note(estimate, conditions)))


def _launch_bound(e: TimingEstimate, _: Conditions) -> str:
    if e.device_compiled_us is None or e.device_compiled_us >= LAUNCH_BOUND * e.compiled_us:
        return ""
    return (
        f"launch-bound: the device works {e.device_compiled_us:.1f} of the {e.compiled_us:.1f} µs of a compiled call; "
        "the rest is Python and kernel launches, which CUDA graphs (mode reduce-overhead) can save"
    )


def _slow(e: TimingEstimate, _: Conditions) -> str:
    if e.verdict == "measuring" or e.pairs >= FEWEST_PAIRS:
        return ""
    return f"calls are slow, so this rests on {e.pairs} pairs only; it goes on refining where there is time"


def _noise(e: TimingEstimate, _: Conditions) -> str:
    if e.control_pairs == 0 or e.noise_floor <= LOUD_FLOOR:
        return ""
    return f"eager against itself differs by up to {e.noise_floor:.0%} in as many pairs: less than that cannot be told"


def _busy(e: TimingEstimate, c: Conditions) -> str:
    if c.busy_cores is None or c.busy_cores + min(e.threads, c.cores) < c.cores + BUSY_MARGIN:
        return ""
    free = max(1, math.floor(c.cores - c.busy_cores))
    fewer = f"; --threads {free} waits for fewer of them" if free < e.threads else ""
    return (
        f"other processes kept {c.busy_cores:.1f} of {c.cores} cores busy, "
        f"while this one runs {_counted(e.threads, 'thread')}: times are longer than on a quiet machine{fewer}"
    )


def _drift(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_halves_us), ("compiled", e.compiled_halves_us))
    drifted = [
        f"{side} {duration(halves[0] / 1e6)} → {duration(halves[1] / 1e6)}"
        for side, halves in sides
        if halves and abs(halves[1] / halves[0] - 1) > DRIFT
    ]
    if not drifted:
        return ""
    return f"drift between the first and second half: {', '.join(drifted)}; pairs run side by side cancel most of it"


def _outliers(e: TimingEstimate, _: Conditions) -> str:
    sides = (("eager", e.eager_outliers), ("compiled", e.compiled_outliers))
    many = [f"{count / e.pairs:.0%} of {side} blocks" for side, count in sides if count > MANY_OUTLIERS * e.pairs]
    return f"outliers: {' and '.join(many)} (kept, medians bear them)" if many else ""


def _discarded(e: TimingEstimate, _: Conditions) -> str:
    if not e.pairs_discarded:
        return ""
    return f"{_counted(e.pairs_discarded, 'pair')} discarded: something was compiled while they ran"


def _unsettled(_: TimingEstimate, c: Conditions) -> str:
    if c.unsettled <= FLAT_WITHIN:
        return ""
    return f"times had not settled when measuring began: the last warm-up rounds lay {c.unsettled:.0%} apart"


def _restored(e: TimingEstimate, c: Conditions) -> str:
    if not c.restored:
        return ""
    what = "gradients are cleared and mutated inputs restored" if e.train else "mutated inputs are restored"
    return f"{what} before each unit, outside the time taken"


def _warm_caches(e: TimingEstimate, _: Conditions) -> str:
    return "" if e.device == "cpu" else "the same inputs each time: the device's L2 cache is warm"


def _governor(_: TimingEstimate, c: Conditions) -> str:
    quiet = c.governor in ("", "performance")
    return "" if quiet else f"the processor's clock is not fixed (governor {c.governor})"


def _apart(_: TimingEstimate, c: Conditions) -> str:
    return (
        "" if c.core_apart is None else f"core {c.core_apart} was left to the terminal app: it disturbs nothing timed"
    )


def _rested(e: TimingEstimate, _: Conditions) -> str:
    if e.pairs_taken <= e.pairs:
        return ""
    return (
        f"the newest {e.pairs:,} of {e.pairs_taken:,} pairs count; after {FULL_SPEED_S:.0f} s or {e.pairs:,} pairs "
        f"measuring rests at least {1 - DUTY:.0%} of the time"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_NOTES: tuple[Note, ...] = (
    _launch_bound, _slow, _noise, _busy, _drift, _outliers, _discarded, _unsettled, _restored, _warm_caches,
    _governor, _apart, _rested,
)  # fmt: skip
