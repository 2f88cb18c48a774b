"""Results of AOTAutograd and Inductor: ATen graphs, passes, kernels, wrappers, fusion decisions, caches, settings.

Also measurements of the GPU: its state, autotuning, CUDA graphs.

`graph` is a compile id, and `target` is the device that the code is for: `native`, the device of this machine, or a
name of the device table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.dynamo_events import FxNode, Subgraph, UserOp, with_subgraphs

GraphPhase = Literal["forward", "backward"]
FusionKind = Literal["", "pointwise", "reduction", "outer loop", "template", "template epilogue", "foreach"]
"""Empty for a single scheduler node."""
CacheOutcome = Literal["hit", "miss", "bypass"]


AtenStage = Literal["joint", "forward", "backward", "inference", "post_grad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtenGraph(Event):
    """A graph below Dynamo's."""

    graph: str
    stage: AtenStage
    """`post_grad`: Inductor's, after its passes; the others: AOTAutograd's."""
    phase: GraphPhase
    nodes: tuple[FxNode, ...] = ()
    """Empty if torch provides text only."""
    subgraphs: tuple[Subgraph, ...] = ()
    code: str = ""
    target: str = "native"

    @property
    def all_nodes(self) -> tuple[FxNode, ...]:
        return with_subgraphs(self.nodes, self.subgraphs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTensor:
    """A value that the forward saves for the backward."""

    name: str
    """Node of the AOT forward graph."""
    bytes: int | None = None
    """None if the size is symbolic or the value is not a tensor."""
    input: bool = False
    """A parameter or an input of the call, which is alive in any case."""
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioned(Event):
    """AOTAutograd cut the joint graph in two."""

    graph: str
    saved: tuple[SavedTensor, ...] = ()
    recomputed: tuple[str, ...] = ()
    """Forward nodes that the backward runs again instead of saving their values."""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """A place of a graph that a pass changed; a line is `name = target(args)`."""

    at: int
    """Line of the graph before the pass, from 0."""
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    """Unchanged lines before the change."""
    below: tuple[str, ...] = ()
    """Unchanged lines after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun(Event):
    """Inductor ran one pass over a graph."""

    graph: str
    stage: str
    """`pre_grad`, `joint` or `post_grad`."""
    phase: GraphPhase
    name: str
    """torch's name of the pass; empty for changes between the passes that have one."""
    nodes_before: int
    nodes_after: int
    hunks: tuple[Hunk, ...] = ()
    """Empty if the pass changed nothing."""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """Origin of one line of a kernel's source."""

    n: int
    """Counted from 1."""
    nodes: tuple[str, ...] = ()
    """Post-grad nodes."""
    source: tuple[Location, ...] = ()
    """Lines of user code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """One call of a kernel in the wrapper; the fields that `Kernel` has too mean the same."""

    order: int
    """Position among the calls of the wrapper, from 0."""
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    source_lines: tuple[Location, ...] = ()
    lines: tuple[KernelLine, ...] = ()
    scheduler_nodes: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    bytes_read: int | None = None
    bytes_written: int | None = None
    flops: int | None = None
    bytes_saved: int | None = None
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Event):
    """A generated or extern kernel, in the order of the wrapper's first calls.

    Equal code is one kernel with several `calls`: the other fields join them, and bytes and FLOPs add them up. Each
    call of an extern kernel is a kernel.
    """

    graph: str
    phase: GraphPhase
    name: str
    """Unique in its graph and phase: `extern_kernels.addmm`, `extern_kernels.addmm:2`."""
    language: str
    """`cpp`, `triton`, `extern` (a library call), or another backend of Inductor."""
    source: str
    ops: tuple[str, ...] = ()
    """Fused ATen and prim ops in graph order, e.g. `aten.gelu`."""
    nodes: tuple[str, ...] = ()
    """Post-grad nodes."""
    source_lines: tuple[Location, ...] = ()
    """Lines of user code."""
    lines: tuple[KernelLine, ...] = ()
    """Empty if only the origin of the whole kernel is known."""
    kind: str = ""
    """Class of the scheduler node."""
    scheduler_nodes: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    """Names of the outputs."""
    bytes_read: int | None = None
    """Sizes of the buffers, from the scheduler."""
    bytes_written: int | None = None
    flops: int | None = None
    """None if torch does not count them."""
    fusion: FusionKind = ""
    bytes_saved: int | None = None
    """Additional bytes that its scheduler nodes would move without fusion."""
    calls: tuple[KernelCall, ...] = ()
    target: str = "native"
    dtypes: tuple[str, ...] = ()
    """Types of the floating-point and complex tensors that its nodes read, e.g. `float32`."""
    user_op: UserOp | None = None
    """The user's kernel that it is, the custom op that it calls, or FlexAttention; None for torch's kernels."""

    @property
    def generated(self) -> bool:
        """Whether Inductor generated its code; a library call has none."""
        return self.language != "extern"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper(Event):
    """The Python module that calls the kernels of one graph, before the C++ or Triton compiler runs."""

    graph: str
    phase: GraphPhase
    source: str
    path: str = ""
    reused: tuple[tuple[str, str], ...] = ()
    """Buffers whose memory is reused: (freed buffer, new buffer)."""
    target: str = "native"


@dataclass(frozen=True, slots=True)
class OpEstimate:
    """torch's estimate of the time of one op of the schedule."""

    name: str
    us: float
    collective: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpEstimates(Event):
    """torch's estimates for the schedule of one graph, in order; a graph has one record per generated module."""

    graph: str
    ops: tuple[OpEstimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionDecision(Event):
    """Inductor's scheduler considered fusing two nodes."""

    graph: str
    phase: GraphPhase
    a: str
    b: str
    fused: bool
    reason: str = ""
    """torch's reason, empty if fused. If torch gives none, a description of the two nodes."""
    a_nodes: tuple[str, ...] = ()
    """Scheduler nodes inside `a`."""
    b_nodes: tuple[str, ...] = ()
    kind: Literal["", "producer and consumer", "side by side"] = ""
    """Empty if not fused."""
    bytes_saved: int | None = None
    """Additional bytes that the two nodes would move without the fusion."""
    refused_by: str = ""
    """Method that refused without a reason, e.g. `CppScheduling.can_fuse_vertical`."""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerNode:
    """A node of Inductor's scheduler."""

    name: str
    buffers: tuple[str, ...] = ()
    """Buffers that it reads or writes."""
    dependencies: tuple[str, ...] = ()
    """Nodes that compute its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMade(Event):
    """Nodes of the scheduler after fusion, extern calls included."""

    graph: str
    phase: GraphPhase
    nodes: tuple[SchedulerNode, ...] = ()
    pairwise_attempts: int | None = None
    """Number of following users of a buffer that each user is compared with; None if unknown."""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLookup(Event):
    """A lookup in one of torch's compile caches."""

    graph: str
    cache: str
    """`fx_graph`, `aot_autograd`, …"""
    outcome: CacheOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of the key of a compile cache."""

    name: str
    """As torch names it: `inductor_config[cpp.simdlen]`, `example_inputs[0]`, `gm`."""
    value: str
    """Long values are cut."""
    digest: str
    """The hash by which torch compares it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKey(Event):
    """The key of a lookup in one of torch's compile caches, and the parts that it was made of."""

    graph: str
    cache: str
    """The cache, as `CacheLookup` names it."""
    key: str
    parts: tuple[KeyPart, ...]
    """Those that the key before it in the same cache does not share; of the first key, all."""
    removed: tuple[str, ...] = ()
    """Names of parts of the key before it that this one lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A part of a cache key that differs from that of the nearest earlier key."""

    part: str
    """As torch names it: `inductor_config[cpp.simdlen]`, `example_inputs[0]`, `gm`."""
    before: str
    """The value in the earlier key, empty if that has no such part."""
    after: str
    """The value in this key, empty if it has no such part."""
    location: Location | None = None
    """The line behind it; None if no line of the program sets it, or it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMissed(Event):
    """A lookup that missed although a similar key was looked up before; the front end adds it."""

    graph: str
    caches: tuple[str, ...]
    """The caches in which the lookup of this graph missed."""
    key: str
    nearest_key: str
    """The earlier key with the most equal parts."""
    nearest_graph: str
    """Its compile id."""
    nearest_run: str = ""
    """The run that looked it up, empty for the same run."""
    differences: tuple[KeyDifference, ...] = ()
    """The most probable cause first. Empty: no part that torch shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerSetting:
    """A setting in torch's configuration, with its value when Inductor compiled the first graph."""

    name: str
    """Such as `torch._inductor.config.max_fusion_size`."""
    value: str
    """As Python source if it is a literal, else the name of the function or class."""
    default: str
    """The default of this torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerState(Event):
    """The configuration and the libraries with which torch compiles, at the first graph of a run."""

    torch: str
    settings: tuple[CompilerSetting, ...] = ()
    """Those with another value than the default of this torch, the ones of the compile's mode included."""
    defaults: tuple[tuple[str, str], ...] = ()
    """Names and values of all other settings."""
    libraries: tuple[tuple[str, str], ...] = ()
    """Libraries of CPU kernels with their versions, such as `oneDNN`, and the vector instructions in use."""


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
