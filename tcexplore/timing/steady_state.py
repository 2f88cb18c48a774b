"""The steady-state gate: nothing is timed before compiling, recording and warming up are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.sample_statistics import median

QUIET_CALLS = 3
"""Units in a row that compile nothing; a CUDA graph is recorded by then too."""

MOST_CALLS = 40
"""Beyond torch's recompile limit several times over: what still compiles then will not stop."""

MOST_RESTARTS = 5
"""Times that the warm-up begins again because of a late compile."""

FLAT_ROUNDS = 3
FLAT_WITHIN = 0.03
FLAT_SECONDS = 0.3
ROUND_BLOCKS = 5
LONG_BLOCK_NS = 20_000_000
"""A block this long is a round of its own."""


class NeverSteadyError(Exception):
    """Every call compiles again: there is no steady state to time."""


class SteadyState(NamedTuple):
    """What the gate found: nanoseconds per unit in the shortest block, which the fewest interruptions have lengthened,
    and by how much the last rounds still differed (0.03 is 3 %)."""

    unit_ns: float
    spread: float

    @property
    def flat(self) -> bool:
        return self.spread <= FLAT_WITHIN


def settle(timer: BlockTimer, run: Callable[[], object], compiles: Callable[[], int]) -> SteadyState:
    """Call `run` until it compiles no more and its times have flattened, or `FLAT_SECONDS` are spent on the latter.

    Raises `NeverSteadyError` when it compiles without end.
    """
    shortest = _until_quiet(timer, run, compiles)
    compiled, restarts = compiles(), 0
    deadline = timer.clock.now_ns() + int(FLAT_SECONDS * 1e9)
    rounds: list[float] = []
    while len(rounds) < FLAT_ROUNDS or (_spread(rounds) > FLAT_WITHIN and timer.clock.now_ns() < deadline):
        # Anew each time: what was seen first may have been interrupted, and be far too long.
        units = timer.units(shortest)
        number = 1 if units * shortest > LONG_BLOCK_NS else ROUND_BLOCKS
        blocks = [timer.time(run, units) for _ in range(number)]
        if compiles() == compiled:
            shortest = min(shortest, *blocks)
            rounds.append(median(blocks))
            continue
        if restarts == MOST_RESTARTS:
            raise NeverSteadyError(f"compiled again {MOST_RESTARTS} times while warming up: there is no steady state")
        shortest = _until_quiet(timer, run, compiles)
        compiled, restarts = compiles(), restarts + 1
        rounds.clear()
    return SteadyState(shortest, _spread(rounds))


def _until_quiet(timer: BlockTimer, run: Callable[[], object], compiles: Callable[[], int]) -> float:
    quiet: list[float] = []
    for _ in range(MOST_CALLS):
        before = compiles()
        took = timer.time(run, 1)
        if compiles() != before:
            quiet.clear()
            continue
        quiet.append(took)
        if len(quiet) == QUIET_CALLS:
            return min(quiet)
    raise NeverSteadyError(f"{MOST_CALLS} calls, and they still compile: there is no steady state to time")


def _spread(rounds: list[float]) -> float:
    last = rounds[-FLAT_ROUNDS:]
    return max(last) / min(last) - 1
