"""Which ranks hold up a job: ranks that wait in a collective, and what the others do instead."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from tcexplore.events.rank_events import Hang, RankRow, Severity

WAIT_S = 5.0
"""Seconds without progress after which a rank counts as waiting."""

ALONE_S = 10.0
"""Seconds without progress of a rank that waits outside of any collective, while no other rank waits in one."""

LONG_S = 30.0
"""Seconds from which on it is an error that ranks wait for one that still works, or that a rank waits by itself.

So it is if their processes work, and only their collectives do not end: a GPU may be busy with something else before.
"""


def find_hang(rows: Sequence[RankRow], now: float | None = None) -> Hang | None:
    """Return the hang, if there is one, from what the processes of this machine do now."""
    now = time.time() if now is None else now
    seen = [row for row in rows if row.state is not None]
    waiting = [row for row in seen if _waits_in_collective(row, now)]
    if not waiting:
        return _waits_alone(seen, now)
    held_up = [row for row in seen if row not in waiting]
    stopped = [row for row in seen if row.state == "stopped"]
    blamed = stopped or held_up
    if blamed:
        return _not_reached([row for row in waiting if row not in blamed], blamed, now)
    calls = {row.call for row in waiting}
    # A call that only the stack tells has no size: `all_reduce` may be `all_reduce [1024]`.
    if len({call for call in calls if not any(other.startswith(f"{call} [") for other in calls)}) > 1:
        return _other_collective(waiting, now)
    if any(row.state is None for row in rows) or len(seen) < 2:
        return None  # the rank that they wait for may run on another machine
    return Hang(
        kind="all wait", ranks=_ranks(waiting), call=max(calls, key=len), location=waiting[0].place,
        since=_since(waiting), waiting_since=_since(waiting), severity=_severity_of_waits(waiting, now),
    )  # fmt: skip


def _severity_of_waits(waiting: Sequence[RankRow], now: float) -> Severity:
    """Return how serious it is that all ranks wait in collectives."""
    return _severity(_since(waiting), now, certain=not any(row.waits is False for row in waiting))


def _severity(since: float, now: float, *, certain: bool) -> Severity:
    return "error" if certain or now - since >= LONG_S else "warning"


def _rested(row: RankRow, now: float) -> float:
    return now - row.since if row.since else 0.0


def _waits_in_collective(row: RankRow, now: float) -> bool:
    return row.state == "waits" and bool(row.call) and _rested(row, now) >= WAIT_S


def _waits_alone(seen: Sequence[RankRow], now: float) -> Hang | None:
    """Return the ranks that wait outside of a collective, or are stopped."""
    still = [
        row for row in seen
        if row.state == "stopped" or (row.state == "waits" and not row.phase and _rested(row, now) >= ALONE_S)
    ]  # fmt: skip
    stopped = [row for row in still if row.state == "stopped"]
    first = min(stopped or still, key=lambda row: row.since or now, default=None)
    if first is None or not (first.stack or stopped):
        return None
    alike = [row for row in still if (row.state, row.place) == (first.state, first.place)]
    since = _since(alike)
    return Hang(
        kind="waits", ranks=_ranks(alike), doing=_doing(first, len(alike)), place=first.place, since=since,
        waiting_since=since, severity=_severity(since, now, certain=bool(stopped)),
    )  # fmt: skip


def _not_reached(waiting: Sequence[RankRow], blamed: Sequence[RankRow], now: float) -> Hang | None:
    """Return that some ranks have not reached the collective in which the others wait."""
    if not waiting:  # all of them are stopped
        return _waits_alone(blamed, now)
    (call, at), _ = Counter((row.call, row.place) for row in waiting).most_common(1)[0]
    first = min(blamed, key=_urgency)
    alike = [row for row in blamed if (row.state, row.place, row.phase) == (first.state, first.place, first.phase)]
    works = first.state == "runs" or (bool(first.phase) and first.state not in ("stopped", "ended"))
    return Hang(
        kind="not reached", ranks=_ranks(alike), waiting=_ranks(waiting), call=call, location=at,
        doing=_doing(first, len(alike)), place=first.place, since=0.0 if works else _since(alike),
        waiting_since=_since(waiting), severity=_severity(_since(waiting), now, certain=not works),
    )  # fmt: skip


def _other_collective(waiting: Sequence[RankRow], now: float) -> Hang:
    """Return that the ranks wait in different collectives; those of the smaller group hold up the others."""
    calls = Counter(row.call for row in waiting)
    most = max(calls, key=lambda call: (calls[call], -min(row.rank for row in waiting if row.call == call)))
    others = [row for row in waiting if row.call != most]
    rest = [row for row in waiting if row.call == most]
    return Hang(
        kind="other collective", ranks=_ranks(others), waiting=_ranks(rest), call=most, location=rest[0].place,
        doing=f"{'it waits' if len(others) == 1 else 'they wait'} in `{others[0].call}`", place=others[0].place,
        since=_since(others), waiting_since=_since(rest), severity=_severity_of_waits(waiting, now),
    )  # fmt: skip


def _urgency(row: RankRow) -> int:
    order = ("stopped", "ended", "waits", "runs")
    return order.index(row.state) if row.state in order else len(order)


def _doing(row: RankRow, number: int) -> str:
    it, is_, s = ("it", "is", "s") if number == 1 else ("they", "are", "")
    if row.state == "stopped":
        return f"{it} {is_} stopped"
    if row.state == "ended":
        return f"{it} {'has' if number == 1 else 'have'} ended{f': {row.error}' if row.error else ''}"
    if row.phase:
        return f"{it} compile{s} {row.graph}" + (f" ({row.span})" if row.span else "")
    if row.state == "runs":
        return f"{it} run{s}"
    call = row.call
    if not call and row.stack and (row.place is None or row.stack[0].file != row.place.file):
        call = row.stack[0].function
    return f"{it} wait{s}" + (f" in `{call}`" if call else "")


def _ranks(rows: Sequence[RankRow]) -> tuple[int, ...]:
    return tuple(sorted(row.rank for row in rows))


def _since(rows: Sequence[RankRow]) -> float:
    """Return the time of the last progress of any of the ranks."""
    return max((row.since or 0.0 for row in rows), default=0.0)
