"""Code for a target: lowering, machine code, resources, roofline. The target need not be present."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLowered(Event):
    """A graph, or its backward, was lowered for a target."""

    graph: str
    target: str
    kernels: int
    """Triton kernels."""
    seconds: float
    notes: tuple[str, ...] = ()
    """Assumptions in place of queries to the device: choices by measurement, the attention kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSkipped(Event):
    """A graph, or a part of it, could not be lowered for a target."""

    graph: str
    target: str
    op: str
    """Op at which lowering stopped."""
    reason: str


@dataclass(frozen=True, slots=True)
class KernelStage:
    """One stage of a kernel's compilation to machine code."""

    name: str
    """`ttir`, `ttgir`, `llir`, `ptx`, `sass`, `amdgcn` or `assembly`."""
    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """(line of `text`, line of the kernel's source), from 1; lines of unknown origin are left out."""


LimitingResource = Literal["", "registers", "shared memory", "warps", "blocks"]
"""Empty at full occupancy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources:
    """Resources of a GPU kernel."""

    registers: int
    """Per thread."""
    spills: int
    """Bytes of local memory per thread."""
    stack: int
    """Bytes of local memory per thread."""
    shared_static: int
    """Bytes per block."""
    shared_dynamic: int
    """Bytes per block."""
    num_warps: int
    num_stages: int
    threads: int
    """Per block."""
    occupancy: float
    """Theoretical share of the multiprocessor's warps that are resident."""
    blocks: int
    """Per multiprocessor."""
    limited_by: LimitingResource
    mix: tuple[tuple[str, int], ...] = ()
    """Instructions by kind."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Vectorization of a C++ kernel, counted in its assembly."""

    vectorized: bool | None
    """Whether most floating-point arithmetic is packed; None if there is none."""
    width: int
    """Widest vector register in bits."""
    packed: int
    """Arithmetic instructions."""
    scalar: int
    """Arithmetic instructions."""
    calls: tuple[str, ...] = ()
    """Functions that it calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopVectorized(Event):
    """Form of a C++ loop nest that Inductor wrote."""

    graph: str
    phase: str
    nodes: tuple[str, ...]
    """Scheduler nodes."""
    form: Literal["vector", "tiles", "scalar"]
    """`tiles`: vectors that are transposed. `scalar`: the C++ compiler may still vectorize it."""
    isa: str
    """Vector instructions that torch picked; empty for none."""
    width: int
    """Bits in one vector."""
    lanes: int
    """Elements in one vector."""
    reason: str = ""
    """Why it is scalar; empty if torch gives no reason."""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAssembled(Event):
    """Machine code of a kernel in one autotuning configuration. `graph` to `target`: as in `Kernel`."""

    graph: str
    phase: str
    kernel: str
    target: str
    config: str
    """`XBLOCK=8, num_warps=2, num_stages=1`."""
    stages: tuple[KernelStage, ...]
    missing: str = ""
    """Why the last stage and the resources are missing; empty if they are not."""
    resources: KernelResources | None = None
    """None for code of a CPU."""
    vectors: Vectors | None = None
    """None for code of a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNotAssembled(Event):
    """A kernel could not be assembled. `graph` to `target`: as in `Kernel`."""

    graph: str
    phase: str
    kernel: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCounters:
    """Hardware counters of the instructions of one statement of a kernel."""

    line: int
    """Line of the kernel's source, from 1; 0 for instructions of unknown origin."""
    instructions: int
    """Executed by all warps."""
    samples: int
    """Times a warp was sampled at these instructions."""
    stalls: tuple[tuple[str, int], ...] = ()
    """Samples at which the warp could not issue, by reason, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounters(Event):
    """Hardware counters of a kernel's first launch in one call of the program. `graph` to `target`: as in `Kernel`.

    Shares are of the peak that the hardware sustains, between 0 and 1; None if this GPU does not count them.
    """

    graph: str
    phase: str
    kernel: str
    target: str
    us: float
    """Duration of the launch, while it is counted."""
    compute_share: float | None
    """Of the multiprocessors' busiest pipeline."""
    memory_share: float | None
    """Of the busiest part of the memory system."""
    dram_share: float | None
    l2_share: float | None
    l1_share: float | None
    occupancy: float | None
    """Share of the multiprocessor's warps that were resident, on average."""
    statements: tuple[StatementCounters, ...] = ()
    """In the order of the source."""
    missing: str = ""
    """Why there are no counters by statement; empty if there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelScript(Event):
    """A Triton kernel as a file that creates inputs, calls the kernel and times it, in torch's form."""

    graph: str
    kernel: str
    target: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint(Event):
    """Roofline estimate of a kernel on a target, from counts and vendor peaks. `graph` to `target`: as in `Kernel`."""

    graph: str
    phase: str
    kernel: str
    target: str
    bytes: int
    """Of one launch."""
    flops: int | None
    """Of one launch; None if torch does not count them."""
    intensity: float | None
    """FLOP per byte."""
    bound: Literal["memory", "compute"]
    implied_us: float
    """Minimum time according to the bound."""
    memory_peak: float
    """Bytes per second."""
    peak: float
    """FLOP per second, of `precision`."""
    precision: str
    """The fastest arithmetic that torch's settings allow for the kernel: `fp32`, `fp64`, `fp64_matrix`, `tf32`, `bf16`
    (also float16) or `fp8`."""
    peaks: tuple[tuple[str, float], ...] = ()
    """FLOP per second of each known arithmetic, dense."""
    l2_bytes: int | None = None
    """Size of the L2 cache; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceQueried(Event):
    """The program read the type of its device while it was traced (`device.type`, `is_cuda`).

    It sees the device that it runs on, not the target, and may take another branch there.
    """

    graph: str
    attribute: str
    location: Location | None = None
    """Line of user code, if any."""
    as_target: bool = False
    """Whether it got the value of the target instead, because it requires a GPU."""
