"""Measurements of the GPU: its state, kernel times, autotuning, CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event

TuningMethod = Literal["configurations", "coordinate descent", "algorithms"]
"""`configurations`: those of a Triton kernel, at its first launch. `coordinate descent`: step by step from the best of
them. `algorithms`: templates and library calls for an op; a later fusion may still change the choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts(Event):
    """The GPU as its driver describes it now; it replaces the last one. A value is None if unknown."""

    name: str
    capability: str
    driver: str = ""
    sm_clock: int | None = None
    """MHz."""
    sm_clock_max: int | None = None
    memory_clock: int | None = None
    memory_clock_max: int | None = None
    slowed_by: tuple[str, ...] = ()
    """The driver's reasons for a clock below the maximum."""
    temperature: int | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    memory_total: int | None = None
    """Bytes."""
    memory_free: int | None = None
    memory_used: int | None = None
    """Used by this process, according to the driver."""
    memory_reserved: int | None = None
    """Reserved by torch's allocator."""


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """One candidate that torch measured or considered."""

    name: str
    kind: Literal["configuration", "template", "extern"]
    us: float | None = None
    """None if not measured: left out, failed, or spilling registers."""
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Autotuned(Event):
    """torch measured several candidates and took the fastest."""

    graph: str
    phase: str
    method: TuningMethod
    choices: tuple[TuningChoice, ...]
    kernel: str = ""
    """Empty for `algorithms`."""
    op: str = ""
    """Only for `algorithms`."""
    node: str = ""
    """Post-grad node, only for `algorithms`."""
    input_sizes: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraphRecorded(Event):
    """A part of a graph was recorded as a CUDA graph, which one launch replays."""

    graph: str
    phase: str
    number: int
    """Number of the recording."""
    part: str
    """Function that was recorded, e.g. `partition_0`."""
    parent: int | None = None
    """Recording that must run before; None for the first of a chain."""
    inputs_copied: int = 0
    """Inputs without a fixed address, copied before each replay."""
    inputs_copied_bytes: int = 0
    peak_bytes: int | None = None
    """Memory that the chain held during this recording, and keeps for its replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraphSkipped(Event):
    """Something is not replayed from a CUDA graph."""

    graph: str
    reason: str
    """torch's reason."""
    phase: str = ""
    """Empty if unknown."""
    nodes: tuple[str, ...] = ()
    """Scheduler nodes that were left out; empty if the reason is about the whole graph."""
