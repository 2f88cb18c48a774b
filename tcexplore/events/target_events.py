"""What was found out about code for a device that is not in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event, Location


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLowered(Event):
    """One graph, or its backward, was lowered for `target`.

    `kernels` Triton kernels were generated in `seconds`. `notes` say what was assumed where the device itself would
    have been asked (a choice that torch makes by measuring, the attention kernel it takes).
    """

    graph: str
    target: str
    kernels: int
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSkipped(Event):
    """A graph, or a part of it, could not be lowered for `target`: the op where it stopped, and why."""

    graph: str
    target: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class KernelStage:
    """One form of a kernel on its way to the machine: `ttir`, `ttgir`, `llir`, `ptx`, `sass`, `amdgcn`, `assembly`.

    `lines` pairs a line of `text` with the line of the kernel's source that it was made from, both 1-based; lines
    without an origin are left out.
    """

    name: str
    text: str
    lines: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources:
    """What one block of a kernel takes. Registers per thread; `spills` and `stack` bytes of local memory per thread;
    shared memory in bytes per block.

    `occupancy` is the share of the multiprocessor's warps that can be resident, in theory, and `limited_by` what
    keeps it from 1 (`registers`, `shared memory`, `warps`, `blocks`; empty at 1). `mix` counts instructions by kind.
    `warnings` are sentences for the user.
    """

    registers: int
    spills: int
    stack: int
    shared_static: int
    shared_dynamic: int
    num_warps: int
    num_stages: int
    threads: int
    occupancy: float
    blocks: int
    limited_by: str
    mix: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """How much of a C++ kernel's arithmetic is vectorized, counted in its assembly.

    `vectorized` tells if most floating-point arithmetic is packed, None where the kernel has none; `width` is the
    widest vector register used, in bits; `packed` and `scalar` count arithmetic instructions; `calls` are the
    functions called from inside.
    """

    vectorized: bool | None
    width: int
    packed: int
    scalar: int
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopVectorized(Event):
    """How Inductor wrote a C++ loop nest, of the scheduler `nodes`: as `vector` instructions, as `tiles` of them that
    are transposed, or `scalar`; the C++ compiler may still vectorize that by itself.

    `isa` are the vector instructions that torch picked, `width` bits wide; both empty where it picked none. `lanes` is
    the number of elements in one vector. `reason` says why the nest is scalar, empty where torch does not tell.
    """

    graph: str
    phase: str
    nodes: tuple[str, ...]
    form: str
    isa: str
    width: int
    lanes: int
    reason: str = ""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAssembled(Event):
    """A kernel in one autotuning configuration (`XBLOCK=8, num_warps=2, num_stages=1`), down to the machine's code.

    `graph`, `phase`, `kernel` and `target` are those of the `Kernel`. `resources` is None for code that does not run
    on a GPU, `vectors` for code that does.
    """

    graph: str
    phase: str
    kernel: str
    target: str
    config: str
    stages: tuple[KernelStage, ...]
    resources: KernelResources | None = None
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNotAssembled(Event):
    """A kernel that could not be brought to machine code, and why."""

    graph: str
    phase: str
    kernel: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelScript(Event):
    """A Triton kernel as a file of its own that makes up its inputs, calls the kernel and times it, in torch's form."""

    graph: str
    kernel: str
    target: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint(Event):
    """Where a kernel stands under the roof of a target: an estimate from counts and vendor peaks, nothing measured.

    `bytes` and `flops` of one launch, `intensity` FLOP per byte, None where torch does not count its FLOPs. `bound` is
    `memory` or `compute`; `implied_us` the least time that this bound allows; `peak` the FLOP/s taken for compute.
    """

    graph: str
    phase: str
    kernel: str
    target: str
    bytes: int
    flops: int | None
    intensity: float | None
    bound: str
    implied_us: float
    memory_peak: float
    peak: float
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceQueried(Event):
    """The program looked at the kind of its device (`device.type`, `is_cuda`) while it was traced: it saw the device it
    runs on, not the target, and may take another path there. `location` is the line, the user's own where it has one.
    """

    graph: str
    attribute: str
    location: Location | None = None
