"""What compiling cost and from how many calls on it has paid for itself, from what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Economics:
    """Seconds, and calls of the model; a figure that was not measured, or does not exist, is None.

    `first_call_s` is the first compiled call, `compile_s` the time that torch's own log gives for compiling.
    `break_even_calls` is after how many calls the time saved outweighs what the calls that compiled took longer
    than a warm one; None unless compiled is faster.
    """

    first_call_s: float | None
    compile_s: float | None
    break_even_calls: int | None


def economics(snapshot: Snapshot) -> Economics:
    """The economics of a run, as far as they are known."""
    compiled = [call for call in snapshot.calls if call.what == "compiled"]
    roots = [phase.seconds for phase in snapshot.phases if phase.depth == 0]
    return Economics(
        first_call_s=compiled[0].seconds if compiled else None,
        compile_s=sum(roots) if roots else None,
        break_even_calls=_break_even(snapshot),
    )


def _break_even(snapshot: Snapshot) -> int | None:
    timing = snapshot.timing
    compiling = [call.seconds for call in snapshot.calls if call.what == "compiled" and call.compiles]
    if timing is None or timing.verdict != "faster" or not compiling:
        return None
    saved_us = (timing.eager_us - timing.compiled_us) / timing.calls
    cost_us = sum(compiling) * 1e6 - len(compiling) * timing.compiled_us / timing.calls
    return max(0, math.ceil(cost_us / saved_us)) if saved_us > 0 else None
