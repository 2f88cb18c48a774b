"""Time of one call by line of the user's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.inductor_events import GraphPhase

Side = Literal["eager", "compiled"]

RestName = Literal["launch", "guards", "Python", "Python and launch", "outside the graphs", "unattributed"]
"""`launch`: dispatch, wrappers and bytecode. `outside the graphs`: eager ops at breaks, of the loss. `unattributed`:
ops and kernels of no known line. `Python and launch`: the host's work where its parts are not measured apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerLine:
    """The ops that a line called; a backward op counts for the line of its forward op."""

    location: Location
    phase: GraphPhase
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKernel:
    """Time of a kernel of Inductor in one call."""

    graph: str
    phase: str
    kernel: str
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesTimed(Event):
    """Parts of one warm call, eager and compiled. On a GPU, ops and kernels have the time of the device.

    `eager_us` and `compiled_us` are the times of the call in the timing. Lines or kernels and the rest add up to them.
    """

    eager_us: float | None = None
    """None if the call was not split."""
    eager: tuple[EagerLine, ...] = ()
    eager_rest: tuple[tuple[RestName, float], ...] = ()
    compiled_us: float | None = None
    kernels: tuple[TimedKernel, ...] = ()
    compiled_rest: tuple[tuple[RestName, float], ...] = ()
    """`guards` is measured. `launch` and `Python` share the remaining time between the kernels as in a profile."""
    estimated: tuple[Side, ...] = ()
    """Sides whose lines are estimates, scaled to the call of the timing: the machine ran over 10% faster or slower than
    in the timing, or the lines add up to more than the call."""
