"""The course of a measurement: the wait for a steady state after compilation and warm-up, then its pace."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.samples import median

CACHED_CALLS = 3
"""Units in a row that compile nothing; by then a CUDA graph is recorded as well."""

MAX_CALLS = 40
"""Several times torch's recompile limit: code that still compiles then never stops."""

MAX_RESTARTS = 5
"""Maximum number of restarts of the warm-up because of a late compilation."""

ROUNDS = 3
MAX_SPREAD = 0.03
MAX_WARM_UP_S = 0.3
BLOCKS_PER_ROUND = 5
LONG_BLOCK_NS = 20_000_000
"""A block this long is one round."""


class NeverSteadyError(Exception):
    """Calls keep compiling: there is no steady state to time."""


class SteadyState(NamedTuple):
    """The result of the warm-up."""

    unit_ns: float
    """Nanoseconds per unit in the shortest block, which has the fewest interruptions."""
    spread: float
    """Relative difference of the last rounds (0.03 is 3%)."""

    @property
    def stable(self) -> bool:
        return self.spread <= MAX_SPREAD


def reach_steady_state(timer: BlockTimer, run: Callable[[], object], compile_count: Callable[[], int]) -> SteadyState:
    """Call `run` until it stops compiling and its times are stable, or `MAX_WARM_UP_S` have passed.

    Raises `NeverSteadyError` if it never stops compiling.
    """
    shortest = _run_until_cached(timer, run, compile_count)
    count, restarts = compile_count(), 0
    deadline = timer.clock.now_ns() + int(MAX_WARM_UP_S * 1e9)
    rounds: list[float] = []
    while len(rounds) < ROUNDS or (_spread(rounds) > MAX_SPREAD and timer.clock.now_ns() < deadline):
        # Computed in each round: the first times may include interruptions and be far too long.
        units = timer.units_per_block(shortest)
        block_count = 1 if units * shortest > LONG_BLOCK_NS else BLOCKS_PER_ROUND
        blocks = [timer.time_block(run, units).unit_ns for _ in range(block_count)]
        if compile_count() == count:
            shortest = min(shortest, *blocks)
            rounds.append(median(blocks))
            continue
        if restarts == MAX_RESTARTS:
            raise NeverSteadyError(f"recompiled {MAX_RESTARTS} times during the warm-up: there is no steady state")
        shortest = _run_until_cached(timer, run, compile_count)
        count, restarts = compile_count(), restarts + 1
        rounds.clear()
    return SteadyState(shortest, _spread(rounds))


def _run_until_cached(timer: BlockTimer, run: Callable[[], object], compile_count: Callable[[], int]) -> float:
    """Call `run` until it compiles nothing `CACHED_CALLS` times in a row; return the shortest time of these."""
    times: list[float] = []
    for _ in range(MAX_CALLS):
        count = compile_count()
        unit_ns = timer.time_block(run, 1).unit_ns
        if compile_count() != count:
            times.clear()
            continue
        times.append(unit_ns)
        if len(times) == CACHED_CALLS:
            return min(times)
    raise NeverSteadyError(f"still compiling after {MAX_CALLS} calls: there is no steady state to time")


def _spread(rounds: list[float]) -> float:
    last = rounds[-ROUNDS:]
    return max(last) / min(last) - 1


FULL_SPEED_S = 30.0
DUTY = 0.003
"""Share of the time spent measuring after that. Calls that use several cores also stay below 1 % of one."""

BURST_PAIRS = 25
BURST_S = 1.0

_REPORT_INTERVALS = ((3.0, 0.25), (10.0, 0.5), (FULL_SPEED_S, 1.0), (600.0, 5.0))
_MAX_REPORT_INTERVAL_S = 30.0


def report_interval(elapsed: float) -> float:
    """Return the seconds until the next estimate, `elapsed` seconds into the measurement."""
    return next((interval for until, interval in _REPORT_INTERVALS if elapsed < until), _MAX_REPORT_INTERVAL_S)


def at_full_speed(elapsed: float, *, answered: bool, full: bool) -> bool:
    """Check whether to continue without a rest: until there is a verdict, and either `FULL_SPEED_S` or enough pairs."""
    return not answered or (elapsed < FULL_SPEED_S and not full)


def rest_duration(burst: float, elapsed: float) -> float:
    """Return the seconds to rest after a burst of `burst` seconds, at least until the next report."""
    return max(burst * (1 / DUTY - 1), report_interval(elapsed))
