"""Profiles of torch.profiler, joined to the generated code."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraphKey(Event):
    """The key of a compiled graph in Inductor's cache; a profile names the graph by it."""

    graph: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """One step of a profile, in microseconds."""

    name: str
    us: float
    """Time of the host, or from the first to the last task of the device if that is longer."""
    device_us: float | None = None
    """Time in which the device works; None without a device."""
    tasks: int = 0
    """Kernels, copies and fills."""
    odd: str = ""
    """How it differs from the median step; empty if it does not by over 20%."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjoinedWork:
    """Kernels or ops of a profile that are on no line."""

    name: str
    reason: str
    us: float
    """Time in all steps."""
    count: int
    compiled: bool = False
    """Whether the generated code of a graph made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRank:
    """One rank of a profiled job. Times are in microseconds."""

    rank: int
    path: str
    """The profile."""
    us: float
    """Time of the median step."""
    device_us: float | None = None
    """Time in which the device works in it."""
    communication_us: float = 0.0
    """Time in collectives, in the mean of all steps."""
    waiting_us: float = 0.0
    """Part of it that the fastest rank of each collective did not need: the rank waits for the last one to arrive."""
    waits_for: int | None = None
    """Rank that it waits for the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRead(Event):
    """A profile of torch.profiler. Work is the device's tasks; without a device, the ops of the host."""

    path: str
    device: str = ""
    """Name of the device; empty for a CPU."""
    steps: tuple[ProfiledStep, ...]
    median: str
    """Name of the step whose times are shown: the median one."""
    work_us: float
    """Time of all work in the profile."""
    work_on_lines_us: float
    """Part of it whose line is known."""
    compiled_us: float
    """Time of the work of generated code, library calls included."""
    compiled_on_lines_us: float
    unjoined: tuple[UnjoinedWork, ...] = ()
    """The longest first."""
    unread: int = 0
    """Damaged events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksProfiled(Event):
    """The profiles of several ranks, side by side."""

    ranks: tuple[ProfiledRank, ...]
