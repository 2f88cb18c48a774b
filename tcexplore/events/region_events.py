"""A script that compiles by itself: its compiled regions and their calls.

A **region** is the result of one use of `torch.compile`: a function, a module, an optimizer's step, or one backward
graph of compiled autograd. Regions are numbered from 0 in the order of their creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location

RegionKind = Literal["function", "method", "module", "module in place", "optimizer", "compiled autograd"]
"""`module in place`: `module.compile()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCreated(Event):
    """`torch.compile` was used."""

    region: int
    name: str
    kind: RegionKind
    location: Location | None = None
    """Line of user code that used `torch.compile`, if any."""
    arguments: tuple[str, ...] = ()
    """Arguments of `torch.compile` that are not its defaults, such as `recompile_limit=4`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedBlocks(Event):
    """Classes of modules that the model repeats in a `ModuleList`, `ModuleDict` or `Sequential`."""

    kinds: tuple[tuple[str, int], ...]
    """Class name and number of its instances, in the order of their first instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGraph(Event):
    """Dynamo began to compile a graph while this region was the innermost one called."""

    region: int
    graph: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardCaptured(Event):
    """Compiled autograd captures a backward because none of its captures matches."""

    backward: str
    """Number of the capture: 2 in `!2/5/0`."""
    reason: str
    """torch's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCompiled(Event):
    """A call of a region that compiled something."""

    region: int
    call: int
    """Counted from 1."""
    at: float
    """Start in seconds since the job arrived."""
    seconds: float
    """Duration, including the call itself."""
    graphs: tuple[str, ...]
    """Compile ids."""
    inputs: tuple[str, ...] = ()
    """Arguments (`f32[64, 512]`); empty if a recompile check is not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCalls(Event):
    """All calls of a region so far; it replaces the last one. A warm call compiles nothing."""

    region: int
    calls: int
    warm: int
    seconds: float
    sampled: int = 0
    """Number of warm calls, the newest ones, from which the times are computed."""
    median_us: float | None = None
    """Wall time of a call; None without a warm call."""
    low_us: float | None = None
    """10th percentile."""
    high_us: float | None = None
    """90th percentile."""
    entered: int | None = None
    """Compiled graphs that the calls ran; None if this torch does not count them."""
    resumed: int | None = None
    """Number of `entered` graphs that follow a graph break."""
    uncompiled: int = 0
    """Calls that ran no graph."""
    raised: int = 0
    """Calls that ended in an exception."""
    bin_s: float = 1.0
    activity: tuple[int, ...] = ()
    """Calls that began in each `bin_s` seconds since the job arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnded(Event):
    """The script ended."""

    seconds: float
    time_limit: float | None = None
    """Limit that ended it; None if it ended by itself."""
