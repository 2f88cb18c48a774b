"""What AOTAutograd and Inductor made: ATen graphs, kernels, wrappers, fusion decisions, caches.

`target` is the device that the code is for: `native`, the one in the machine, or a name of the device table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event, Location
from tcexplore.events.dynamo_events import FxNode


@dataclass(frozen=True, slots=True, kw_only=True)
class AtenGraph(Event):
    """A graph below Dynamo's. `stage` is `joint`, `forward`, `backward`, `inference` (AOTAutograd) or `post_grad`
    (Inductor, after its passes). `phase` is `forward` or `backward`. `nodes` is empty where torch gives text only.
    """

    graph: str
    stage: str
    phase: str
    nodes: tuple[FxNode, ...] = ()
    code: str = ""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTensor:
    """A value that the forward keeps for the backward: `name` of its AOT forward node, and its size, None where that is
    symbolic or the value is no tensor. An `input` (a parameter, a batch) is alive anyway and costs nothing more."""

    name: str
    bytes: int | None = None
    input: bool = False
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioned(Event):
    """AOTAutograd cut the joint graph in two. `recomputed` names the forward nodes that the backward runs again
    rather than have their values kept."""

    graph: str
    saved: tuple[SavedTensor, ...] = ()
    recomputed: tuple[str, ...] = ()
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """Provenance of line `n` (1-based) of a kernel's source: post-grad node names and the user's lines."""

    n: int
    nodes: tuple[str, ...] = ()
    source: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """One of the wrapper's calls of a kernel; `order` counts those of one wrapper from 0. The rest as in `Kernel`."""

    order: int
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
    """One generated or extern kernel, in the order of the wrapper's first calls.

    `language` is `cpp`, `triton` or `extern`. `ops` are the ATen/prim ops fused into it, in graph order
    (`aten.gelu`); `nodes` the post-grad nodes; `source_lines` the user's lines. `lines` is empty where only
    kernel-level provenance is known. `bytes_read`/`bytes_written` come from the scheduler (buffer sizes), `flops` is
    None where torch does not count them. `kind` is the scheduler node's class, `buffers` the names of its outputs.
    Equal code is one kernel, called several times: `calls` keeps what is known of each call, the other fields join
    them, and bytes and flops add them up. Each call of an extern kernel is a kernel of its own, and every name is
    unique in its graph and phase (`extern_kernels.addmm`, `extern_kernels.addmm:2`).
    """

    graph: str
    phase: str
    name: str
    language: str
    source: str
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    source_lines: tuple[Location, ...] = ()
    lines: tuple[KernelLine, ...] = ()
    kind: str = ""
    scheduler_nodes: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    bytes_read: int | None = None
    bytes_written: int | None = None
    flops: int | None = None
    fusion: str = ""
    """What was fused: `pointwise`, `reduction`, `outer loop`, `template`, `template epilogue`, `foreach`; empty where
    the kernel is a single scheduler node."""
    bytes_saved: int | None = None
    """Bytes that its scheduler nodes would move each on their own beyond those that the kernel moves."""
    calls: tuple[KernelCall, ...] = ()
    target: str = "native"
    dtypes: tuple[str, ...] = ()
    """Of the floating-point tensors that its nodes read (`float32`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper(Event):
    """The Python module that calls the kernels of one graph, whole, before the C++ or Triton compiler ran.

    `reused` are the buffers whose memory a later one takes over: (freed buffer, new buffer).
    """

    graph: str
    phase: str
    source: str
    path: str = ""
    reused: tuple[tuple[str, str], ...] = ()
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionDecision(Event):
    """Inductor's scheduler considered fusing scheduler nodes `a` and `b`. `reason` is torch's, empty when fused.

    Where torch says no without a reason, `refused_by` is the method that said so (`CppScheduling.can_fuse_vertical`)
    and `reason` what the two nodes are, by their own ranges and classes. `a_nodes` and `b_nodes` are the nodes inside,
    as in `Kernel.scheduler_nodes`. `kind` of a fusion is `producer and consumer` or `side by side`;
    `bytes_saved` the bytes that the two move beyond those of the fused one.
    """

    graph: str
    phase: str
    a: str
    b: str
    fused: bool
    reason: str = ""
    a_nodes: tuple[str, ...] = ()
    b_nodes: tuple[str, ...] = ()
    kind: str = ""
    bytes_saved: int | None = None
    refused_by: str = ""
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerNode:
    """One node of Inductor's scheduler: the `buffers` that it reads or writes, and the nodes that it `needs`, those
    that compute what it reads."""

    name: str
    buffers: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMade(Event):
    """The scheduler's nodes, those of extern calls too, after fusion. It compares a user of a buffer with the next
    `attempts` users of that buffer; None where torch does not say how many."""

    graph: str
    phase: str
    nodes: tuple[SchedulerNode, ...] = ()
    pairwise_attempts: int | None = None
    target: str = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLookup(Event):
    """One look-up: `cache` is `fx_graph`, `aot_autograd`, ...; `outcome` `hit`, `miss` or `bypass`, with a reason."""

    graph: str
    cache: str
    outcome: str
    reason: str = ""
