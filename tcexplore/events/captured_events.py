"""Captured calls of the regions of a script, and the sizes of all calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event
from tcexplore.events.recompile_events import RecompileChange
from tcexplore.events.result_events import Accuracy, BreakCosts, CallProfiled, Memory
from tcexplore.events.timing_events import EagerLinesTimed, TimingEstimate

Padding = Literal["next power of 2", "largest"]
"""To what the changing sizes of a call are padded: the next power of two, or the largest size that occurred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedCall:
    """A captured call with changing sizes, padded, in the code that the script compiled. Times are medians."""

    padding: Padding
    inputs: tuple[str, ...]
    us: float | None = None
    """Microseconds of the padded call. None: not measured, see `problem`."""
    exact_us: float | None = None
    """Of the call as the script made it, measured in turns."""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExamined(Event):
    """A captured call of a region, made again after the script: compared, timed and profiled.

    It replaces an earlier event of the same call. A result that is None is in `missing`, or was not measured.
    """

    region: int
    call: int
    """Of the region's calls, from 1."""
    inputs: tuple[str, ...]
    """Descriptions of the arguments, such as `f32[64, 512]`."""
    calls: int
    """Calls of the script with such inputs."""
    compiles: int
    """Graphs that these calls compiled."""
    backward: bool
    """Whether the call is made with the gradients of its outputs that came in the script's backward."""
    held: int
    """Bytes that were held for it until the end of the script."""
    notes: tuple[str, ...] = ()
    """Sentences on what is not as it was in the script."""
    timing: TimingEstimate | None = None
    accuracy: Accuracy | None = None
    memory: Memory | None = None
    profile: CallProfiled | None = None
    eager_lines: EagerLinesTimed | None = None
    break_costs: BreakCosts | None = None
    padded: tuple[PaddedCall, ...] = ()
    missing: tuple[str, ...] = ()
    """Sentences on what could not be measured, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSize:
    """A tensor among the arguments of a call."""

    argument: str
    """Position or name, such as `0`, `0[1]` or `mask`."""
    size: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesCounted:
    """Calls of a region with the same types, sizes, numbers and grad mode."""

    inputs: tuple[str, ...]
    grad: bool
    calls: int
    compiles: int
    """Graphs that these calls compiled."""
    first_call: int
    """Number of the first of them, from 1."""
    tensors: tuple[TensorSize, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryingSize:
    """A size that differs between the calls of a region, in all dimensions that have the same one in each call."""

    dims: tuple[RecompileChange, ...]
    """Argument and dimension of each, as `mark_dynamic` would have them."""
    values: tuple[tuple[int, int], ...]
    """Each size with the number of its calls, the smallest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesSeen(Event):
    """The sizes with which a script called a region, in the order of their first calls; it replaces the last one."""

    region: int
    sizes: tuple[SizesCounted, ...]
    varying: tuple[VaryingSize, ...] = ()
    """Sizes that differ between calls whose tensors have the same numbers of dimensions."""
    other_calls: int = 0
    """Calls with further sizes, which were not told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesTried(Event):
    """Changes with which the captured calls of a region were repeated in a copy of the process, by Dynamo only."""

    region: int
    calls: int
    """Calls that were repeated, each with other sizes."""
    changes: tuple[RecompileChange, ...]
    graphs_before: int
    """Graphs that the unchanged calls compile."""
    graphs_after: int | None = None
    """None: the calls failed, see `problem`."""
    problem: str = ""
