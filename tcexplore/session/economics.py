"""What compiling cost in one run and whether it has paid for itself, from what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.session.compile_time import compile_time, files_compiled
from tcexplore.session.payback import Payback, payback
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Economics:
    """Seconds, and calls of the model; a figure that was not measured, or does not exist, is None.

    `first_call_s` is the first compiled call, `compile_s` the time that torch's own log gives for compiling.
    `cost_s` is how much longer the calls that compiled took than warm ones would have, and `payback` what follows
    from it. `break_even_calls` is the payback's; None unless compiled is faster. `compiling_calls` are so many calls
    that compiled, and `kernels_found` tells that the C++ compiler had nothing to do for the kernels: an earlier run
    left them on disk.
    """

    first_call_s: float | None
    compile_s: float | None
    cost_s: float | None = None
    payback: Payback | None = None
    break_even_calls: int | None = None
    compiling_calls: int = 0
    kernels_cached: bool = False


def economics(snapshot: Snapshot) -> Economics:
    """The economics of a run, as far as they are known."""
    compiled = [call for call in snapshot.calls if call.variant == "compiled"]
    roots = [phase.seconds for phase in snapshot.phase_times if phase.depth == 0]
    timing, cost = snapshot.timing, _cost_s(snapshot)
    found = payback(timing, cost) if timing is not None and cost is not None else None
    return Economics(
        first_call_s=compiled[0].seconds if compiled else None,
        compile_s=sum(roots) if roots else None,
        cost_s=cost,
        payback=found,
        break_even_calls=found.break_even if found and timing and timing.verdict == "faster" else None,
        compiling_calls=sum(call.compiles > 0 for call in compiled),
        kernels_cached=_kernels_found(snapshot),
    )


def _kernels_found(snapshot: Snapshot) -> bool:
    own = any(kernel.language == "cpp" for kernel in snapshot.code.kernels)
    return own and not files_compiled(compile_time(snapshot).roots)


def _cost_s(snapshot: Snapshot) -> float | None:
    compiling = [call.seconds for call in snapshot.calls if call.variant == "compiled" and call.compiles]
    if snapshot.timing is None or not compiling:
        return None
    return max(0.0, sum(compiling) - len(compiling) * snapshot.timing.compiled_us / 1e6)
