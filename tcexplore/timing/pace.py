"""The pace of a measurement: full speed for the first answers, then mostly rests, to leave the machine to the user."""

from __future__ import annotations

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
