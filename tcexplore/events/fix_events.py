"""Facts that the front end adds about fixes of graph breaks and guard filters. No worker sends these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location

FixState = Literal["proposed", "verifying", "verified", "untested", "refused", "none"]
"""`untested`: no input takes a branch that it changes. `refused`: no change is verified. `none`: none is proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixGain:
    """Time of a compiled call that a fix saves, from pairs of calls with and without it."""

    us: float
    low_us: float
    high_us: float
    """Ends of the 95% interval."""
    call_us: float
    """A compiled call without the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakFix(Event):
    """The best known change that could remove a graph break; it replaces the last one of the same break."""

    location: Location | None
    kind: str
    """`GraphBreak.kind` of the break."""
    state: FixState
    name: str = ""
    """The fix, such as `torch.where`."""
    line: str = ""
    """The first changed line of code."""
    note: str = ""
    """Why it is not verified, or advice if there is no fix."""
    inputs: int = 0
    """Number of inputs that it was verified on."""
    kernels: tuple[int, int] | None = None
    """Kernels before and after."""
    speedup: float | None = None
    """Time of a compiled call before over after; None if it is undecided."""
    gain: FixGain | None = None
    """Cost of the break; None before the verified fix is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFilterTried(Event):
    """The result of a run with a guard filter, compared with one without; it replaces the last one of this filter."""

    name: str
    """As in `Config.guard_filter`."""
    speed: float = 0.0
    """Time of a compiled call without the filter over the time with it; 0 if it was not timed."""
    low: float = 0.0
    high: float = 0.0
    """Ends of the 95% interval of `speed`."""
    decided: bool = False
    """Whether both runs have a verdict."""
    wrong: bool = False
    """Whether the result differs from eager's."""
