"""What was measured: single calls, interleaved pairs, the estimate drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event

TimingVerdict = Literal["faster", "slower", "no difference", "undecided", "measuring"]
"""`measuring` until there are enough pairs for one of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade(Event):
    """One call apart from the steady state. `what` is `eager` or `compiled`; `compiles` counts the frames that
    this call compiled (0 for a call that found everything cached), `graphs` are their compile ids.

    `running` are the seconds of it in which compiled graphs ran, and `frames` those in which Dynamo looked at frames
    outside the spans that torch logs; None where that was not measured."""

    index: int
    variant: str
    seconds: float
    compiles: int = 0
    graphs: tuple[str, ...] = ()
    graph_seconds: float | None = None
    frame_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsMeasured(Event):
    """New interleaved blocks, eager and compiled, in microseconds per call; `control` marks eager against eager."""

    eager_us: tuple[float, ...]
    compiled_us: tuple[float, ...]
    control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingEstimate(Event):
    """The verdict so far; each one replaces the last.

    Times are medians in microseconds per call, already divided by `calls`, the calls that one timed unit contains.
    `speedup` is the median of the per-pair ratios eager/compiled, [`low`, `high`] its 95 % bootstrap interval;
    `noise_floor` the deviation from 1 that so many pairs of eager with eager show by chance (three standard errors of
    their median, from the scatter of the `control_pairs`; 0.02 is 2 %). Spread is the median
    absolute deviation. `notes` name drift, outliers,
    discarded blocks, changed inputs.
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
    verdict: TimingVerdict
    threads: int
    device: str
    calls: int = 1
    block: int = 1
    train: bool = False
    notes: tuple[str, ...] = ()
    block_compiled: int = 1
    """Units in one compiled block, as `block` is for eager: the blocks of both sides last about equally long."""
    control_pairs: int = 0
    pairs_taken: int = 0
    """All pairs measured so far; the newest `pairs` of them are kept and count."""
    pairs_discarded: int = 0
    """Pairs thrown away because something was compiled while they ran."""
    eager_p10_us: float | None = None
    eager_p90_us: float | None = None
    compiled_p10_us: float | None = None
    compiled_p90_us: float | None = None
    eager_outliers: int = 0
    """Blocks beyond Tukey's fences (1.5 interquartile ranges), counted and kept."""
    compiled_outliers: int = 0
    eager_halves_us: tuple[float, ...] = ()
    """Medians of the first and of the second half of the blocks; empty while there are too few."""
    compiled_halves_us: tuple[float, ...] = ()
    device_eager_us: float | None = None
    """What the device itself works per call, gaps between launches left out; None on a CPU."""
    device_compiled_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSkipped(Event):
    """There is no timing for this run, and why."""

    reason: str
