"""The account of one compiled call: the parts of its profile, scaled to the call of the timing.

Every view of the time within a compiled call reads it, so that no two views differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tcexplore import events as ev

TOLERANCE = 1.1
"""Factor by which the speed of the machine may change before the parts are estimates."""


@dataclass(frozen=True, slots=True)
class CallAccount:
    """Parts of one compiled call, in microseconds."""

    total_us: float
    """The compiled call of the timing; of the profile if there is none yet."""
    measured_us: float
    """The call in which the parts were measured: without the profiler's cost on a CPU, with it on a device."""
    repeats: int
    """Number of profiled calls in the mean."""
    parts: tuple[ev.CallPart, ...]
    """The longest first. Their ends also cover what was measured before scaling."""
    rest_us: float
    """What the parts leave of the call; negative where work of the device overlaps."""
    estimated: bool
    """The machine ran over 10% faster or slower than in the timing, or the device's work takes longer than the call:
    the parts are scaled."""
    calls: int
    """Calls in one timed unit; `launches` of a part are those of a unit."""
    profile: ev.CallProfiled

    def us(self, *kinds: ev.PartKind) -> float:
        """Return the time of all parts of these kinds."""
        return sum(part.us for part in self.parts if part.kind in kinds)

    @property
    def launch_part(self) -> ev.PartKind:
        """The part that the `launch_us` of the kernels belong to."""
        return "idle" if self.on_device else "launch"

    @property
    def on_device(self) -> bool:
        return self.profile.device_busy_us is not None


def call_account(profile: ev.CallProfiled | None, timing: ev.TimingEstimate | None) -> CallAccount | None:
    """Return the account of a profiled call; None without a profile."""
    if profile is None:
        return None
    calls = timing.calls if timing is not None else 1
    measured = profile.total_us / calls
    total = timing.compiled_us if timing is not None else measured
    parts = [_scaled(part, 1 / calls) for part in profile.parts]
    if profile.device_busy_us is not None:
        return _on_device(profile, parts, total, calls)
    factor = total / measured if measured else 1.0
    scaled = tuple(_scaled(part, factor, cover=True) for part in parts)
    return CallAccount(
        total_us=total, measured_us=measured, repeats=profile.repeats, parts=scaled, rest_us=_rest(total, scaled),
        estimated=not 1 / TOLERANCE <= factor <= TOLERANCE, calls=calls, profile=profile,
    )  # fmt: skip


def _on_device(profile: ev.CallProfiled, parts: list[ev.CallPart], total: float, calls: int) -> CallAccount:
    """Return the account of a call on a device.

    The device's time depends little on the load of the machine, so it is scaled only if it exceeds the call. What the
    host does while the device works takes no time of the call; what remains is idle time of the device, of which the
    guards are a part.
    """
    busy = (profile.device_busy_us or 0.0) / calls
    work = [part for part in parts if part.kind != "guards"]
    host_work = sum(part.us for part in work if part.device == "cpu")
    excess = (busy + host_work) / total if total else 1.0
    factor = 1 / max(1.0, excess)
    idle = max(0.0, total - (busy + host_work) * factor)
    guards = [part for part in parts if part.kind == "guards"]
    guards_us = sum(part.us for part in guards)
    kept = [_scaled(part, min(1.0, idle / guards_us) if guards_us else 1.0) for part in guards]
    waits = idle - sum(part.us for part in kept)
    profiled_idle = profile.total_us / calls - busy - host_work
    wait_factor = min(1.0, max(0.0, waits) / profiled_idle) if profiled_idle > 0 else 0.0
    scaled = [
        replace(_scaled(part, factor, cover=True), launch_us=part.launch_us * wait_factor) for part in work
    ] + kept  # fmt: skip
    if waits > 0:
        low = max(0.0, total - sum(part.high_us for part in scaled))
        high = max(waits, total - sum(part.low_us for part in scaled))
        scaled.append(ev.CallPart(kind="idle", name="", us=waits, low_us=min(low, waits), high_us=high))
    scaled.sort(key=lambda part: -part.us)
    return CallAccount(
        total_us=total, measured_us=profile.total_us / calls, repeats=profile.repeats, parts=tuple(scaled),
        rest_us=_rest(total, scaled), estimated=excess > TOLERANCE, calls=calls, profile=profile,
    )  # fmt: skip


def _scaled(part: ev.CallPart, factor: float, *, cover: bool = False) -> ev.CallPart:
    """Return a part times a factor; its ends `cover` also the part before."""
    low, high = part.low_us * factor, part.high_us * factor
    if cover:
        low, high = min(low, part.low_us), max(high, part.high_us)
    return replace(part, us=part.us * factor, low_us=low, high_us=high, launch_us=part.launch_us * factor)


def _rest(total: float, parts: Iterable[ev.CallPart]) -> float:
    """Return what the parts leave of the call, 0 if that is rounding."""
    rest = total - sum(part.us for part in parts)
    return rest if abs(rest) > 1e-6 * total else 0.0


EagerOp = tuple[str, int, float]
"""Name, times in one unit of calls, and microseconds of one call."""


def eager_ops(account: CallAccount | None) -> tuple[EagerOp, ...] | None:
    """Return the ops outside every graph, the longest first; None if no call was profiled."""
    if account is None:
        return None
    return _by_op(account.parts)


def lines_of_eager_ops(account: CallAccount) -> dict[str, tuple[ev.Location, ...]]:
    """Return the lines of each eager op, those with most of its time first; of a backward op that of its forward op."""
    lines: dict[str, dict[ev.Location, None]] = {}
    for part in account.parts:
        if part.kind == "eager op" and part.location is not None:
            lines.setdefault(part.name, {}).setdefault(part.location)
    return {name: tuple(known) for name, known in lines.items()}


def profiled_eager_ops(profile: ev.CallProfiled | None) -> tuple[EagerOp, ...]:
    """Return the ops outside every graph with the microseconds of one profiled unit, as the costs of breaks have."""
    return _by_op(profile.parts if profile is not None else ())


def _by_op(parts: Iterable[ev.CallPart]) -> tuple[EagerOp, ...]:
    """Return the eager ops, each once, the longest first: a part is of one module and line."""
    ops: dict[str, EagerOp] = {}
    for part in parts:
        if part.kind == "eager op":
            _, times, us = ops.get(part.name, ("", 0, 0.0))
            ops[part.name] = part.name, times + part.launches, us + part.us
    return tuple(sorted(ops.values(), key=lambda op: -op[2]))
