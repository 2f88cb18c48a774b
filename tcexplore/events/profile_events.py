"""Profiles of torch.profiler, joined to the generated code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location


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


SpanKind = Literal[
    "data", "forward", "backward", "optimizer", "other ops", "module", "mark", "kernel", "library", "eager op",
    "synchronization", "copy", "fill", "collective",
]  # fmt: skip
"""`data` to `other ops`: a phase of the step on the host. `mark`: a range that the program marked. `kernel`: generated
code. `library`: a library call of a graph. `copy`, `fill`, `collective`: tasks of a device."""

StepPartKind = Literal[
    "computing", "copy", "collective", "synchronization", "host-bound", "profiler", "queued", "not known",
    "data", "forward", "backward", "optimizer", "other ops", "between ops",
]  # fmt: skip
"""What the time of a step is. Of a device: it computes; only copies; only communicates, which includes waiting for
other ranks; or does nothing, because the host waited for it (`synchronization`), launched late (`host-bound`), was held
up by the profiler, or although the launch was there (`queued`). Without a device: the phases of the host, and what is
between them (`between ops`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """Work in a row of the timeline."""

    name: str
    """Name of the op, or of the device's function."""
    start_us: float
    """Since the beginning of the step."""
    us: float
    kind: SpanKind
    op: str = ""
    """The op that launched it, if that has another name."""
    kernel: str = ""
    """Kernel of the generated code; empty if unknown, or none."""
    graph: str = ""
    phase: str = ""
    modules: tuple[str, ...] = ()
    source_lines: tuple[Location, ...] = ()
    """Lines of user code; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A thread, a stream, or a summary of them."""

    name: str
    place: Literal["host", "device"]
    spans: tuple[TimelineSpan, ...]
    """By start; they do not overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineGap:
    """A time in which no stream of the device works."""

    start_us: float
    """Since the beginning of the step."""
    us: float
    cause: StepPartKind
    reason: str
    """What the events of the profile tell about it."""
    location: Location | None = None
    """Line of the op that the device waits for; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePart:
    """Time of a step in microseconds."""

    kind: StepPartKind
    us: float
    count: int
    """Number of such intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeline(Event):
    """A step as a timeline, from a profile."""

    step: str
    """Name of the step."""
    odd: str = ""
    """How it differs from the median step; empty if it does not by over 20%."""
    us: float
    """From the beginning of the step on the host to the end of its work."""
    device: str = ""
    """Name of the device; empty for a CPU."""
    counted_from_us: float = 0.0
    """Where the device ends the work of the step before: the time of the step is counted from there to `us`."""
    rows: tuple[TimelineRow, ...] = ()
    gaps: tuple[TimelineGap, ...] = ()
    parts: tuple[TimelinePart, ...] = ()
    """They add up to the counted time."""
    left_out: int = 0
    """Spans that are not listed, the shortest ones."""
    left_out_us: float = 0.0
    """Their time."""
