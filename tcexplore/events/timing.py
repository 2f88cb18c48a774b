"""What was measured: single calls, interleaved pairs, the estimate drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade(Event):
    """One call apart from the steady state. `what` is `eager` or `compiled`; `compiles` counts the frames that
    this call compiled (0 for a call that found everything cached)."""

    index: int
    what: str
    seconds: float
    compiles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsMeasured(Event):
    """New interleaved blocks, eager and compiled, in microseconds per call; `control` marks eager against eager."""

    eager_us: tuple[float, ...]
    compiled_us: tuple[float, ...]
    control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingEstimate(Event):
    """The verdict so far; each one replaces the last.

    `speedup` is the median of the per-pair ratios eager/compiled, [`low`, `high`] its 95 % bootstrap interval;
    `noise_floor` the ratio's deviation from 1 that the eager-eager control shows. `verdict` is `faster`, `slower`,
    `no difference` or `measuring`. Spread is the median absolute deviation. `calls` is what one timed unit contains.
    `notes` name drift, outliers, discarded blocks, mutated inputs.
    """

    eager_us: float
    eager_spread_us: float
    compiled_us: float
    compiled_spread_us: float
    speedup: float
    low: float
    high: float
    noise_floor: float
    pairs: int
    verdict: str
    threads: int
    device: str
    calls: int = 1
    block: int = 1
    train: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSkipped(Event):
    """There is no timing for this run, and why."""

    reason: str
