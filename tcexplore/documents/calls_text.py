"""The calls one by one, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.events import Recompiled
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.call_strip import WARM, Made, strip

MOST = 8
"""So many calls are told one by one."""


def call_lines(snapshot: Snapshot) -> Iterator[str]:
    """`call 1: compile, 1.93 s`; the warm ones at the end as one, with the time that was measured for them."""
    made = strip(snapshot)
    last = max((call.number for call in made if call.what != WARM), default=0)
    for call in made[:last][:MOST]:
        yield _said(call)
    if last > MOST:
        yield f"and {last - MOST} more until call {last}"
    if not made:
        return
    timing = snapshot.timing
    steady = f": {duration(timing.compiled_us / 1e6)} each" if timing else _first_warm(made[last:])
    if timing or len(made) > last:
        yield f"call {last + 1} on{steady}"


def _first_warm(made: tuple[Made, ...]) -> str:
    return f": {duration(made[0].seconds)}" if made else ""


def _said(call: Made) -> str:
    reason = "; ".join(describe_failed_guard(again) for again in call.why)
    return f"call {call.number}: {call.what}{f' ({reason})' if reason else ''}, {duration(call.seconds)}"


def describe_failed_guard(again: Recompiled) -> str:
    """`64 → 24: ` and the guard that failed."""
    changed = f"{again.old} → {again.new}: " if again.old and again.new else ""
    return f"{changed}{again.failed_guard or again.reason}"
