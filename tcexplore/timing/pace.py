"""How hard and how long the machine is used: fast answers first, then a rest that leaves it to the user. Pure."""

from __future__ import annotations

FULL_SPEED_S = 60.0
DUTY = 0.2
"""Share of the time that is measured in after the full-speed minute."""

BURST_PAIRS = 25
BURST_S = 1.0

_REPORTS = ((3.0, 0.25), (10.0, 0.5), (FULL_SPEED_S, 1.0), (600.0, 5.0))
_SLOWEST_REPORT_S = 30.0


def report_after(elapsed: float) -> float:
    """Seconds until the next estimate is due, `elapsed` seconds into the measurement."""
    return next((every for until, every in _REPORTS if elapsed < until), _SLOWEST_REPORT_S)


def at_full_speed(elapsed: float, *, answered: bool, full: bool) -> bool:
    """Whether to go on without a rest: until there is a verdict, then for the first minute, unless as many pairs as
    are kept are there before that.
    """
    return not answered or (elapsed < FULL_SPEED_S and not full)


def rest_after(worked: float, elapsed: float) -> float:
    """Seconds to rest after a burst that took `worked`: `DUTY` at most, and no sooner than a report is due."""
    return max(worked * (1 / DUTY - 1), report_after(elapsed))
