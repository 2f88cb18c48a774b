"""What graph breaks cost, and how a changed file compares with what it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.result_events import AccuracyVerdict
from tcexplore.events.timing_events import TimingVerdict

PaddingVerdict = Literal["equal", "different", "not compared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakCost:
    """The time that one warm compiled unit spends at a break: from where its graph ends to where the next one begins.

    `location` is the break's line; `us` microseconds in one unit, the median of those measured; `gaps` how often a
    graph was left there, `ops` what ran meanwhile: (op name, times it ran, microseconds under the profiler).
    """

    location: Location
    us: float
    gaps: int
    ops: tuple[tuple[str, int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakCosts(Event):
    """What each break costs, and `total_us` of a whole unit measured alike; `units` of them were.

    `elsewhere_us` was spent between two graphs of which neither names a break, `around_us` before the first and behind
    the last graph of a call: where a break made Dynamo give a whole function up, they are what it costs.
    """

    costs: tuple[BreakCost, ...]
    total_us: float
    units: int
    elsewhere_us: float = 0.0
    around_us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeChecked(Event):
    """The changed file run eagerly, beside what it was before, on the same inputs and from the same seed.

    `verdict` covers outputs, gradients with `--train`, and whatever the calls write to;
    `differences` are sentences on dtype, shape, and on what is there at all. `calls` were compared, and `varied` more
    with other values in the inputs, for the ways that these inputs do not take. `reason` says why nothing was judged.
    """

    verdict: AccuracyVerdict
    max_abs: float | None = None
    max_rel: float | None = None
    differences: tuple[str, ...] = ()
    calls: int = 0
    varied: int = 0
    train: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingChecked(Event):
    """Inputs padded to a bucket, run compiled, beside the same inputs without padding, run eagerly; what padding added
    is cut off the outputs.

    `verdict` is `equal` (but for rounding), `different` or `not compared`, with the `reason` or the first output that
    differs. `calls` were compared; `max_abs` is the largest difference.
    """

    verdict: PaddingVerdict
    calls: int = 0
    max_abs: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTimed(Event):
    """The changed file compiled and what it was before compiled, timed in randomly ordered pairs in one process.

    Microseconds for one call; `speedup` is the median of before over after with a 95 % interval from `low` to `high`,
    `verdict` as that of a `TimingEstimate`, of the change instead of compiling.
    """

    before_us: float
    after_us: float
    speedup: float
    low: float
    high: float
    verdict: TimingVerdict
    pairs: int
