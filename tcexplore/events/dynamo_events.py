"""Dynamo's results: graphs, graph breaks, skipped frames, guards, recompiles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Literal

from tcexplore.events.base import Event, Location

UserOpKind = Literal[
    "Triton kernel", "Triton op", "custom op", "FlexAttention", "FlexGEMM", "Helion kernel", "C++ extension",
    "CUDA extension", "higher-order op"
]  # fmt: skip
"""`Triton op`: a custom op of `torch.library.triton_op`, which torch looks into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOp:
    """A kernel or an op that is not torch's."""

    kind: UserOpKind
    name: str
    """Name of the kernel's function, or of the op with its namespace: `mylib.pooled`."""
    location: Location | None = None
    """First line of its definition, with decorators; None if it is not defined in Python."""
    source: str = ""
    """Its definition in Python."""


@cache
def _itemsize(dtype: str) -> int | None:
    """Return the bytes of one element from the bits in the name of the dtype: `bf16`, `f8e4m3fn`."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else None


_VIEWS = frozenset({
    "getitem", "operator.getitem", "_operator.getitem", "aten.view", "aten.reshape", "aten._unsafe_view",
    "aten._reshape_alias", "aten.permute", "aten.transpose", "aten.t", "aten.expand", "aten.unsqueeze", "aten.squeeze",
    "aten.slice", "aten.select", "aten.as_strided", "aten.alias", "aten.detach", "aten.split", "aten.split_with_sizes",
    "aten.unbind", "aten.view_as_real", "aten.view_as_complex", "prims.broadcast_in_dim",
})  # fmt: skip


def packet(target: str) -> str:
    """Return an op without its overload: `aten.mul` for `aten.mul.Tensor`."""
    return ".".join(target.split(".")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class FxNode:
    """A node of an FX graph."""

    name: str
    op: str
    """FX opcode, e.g. `call_function`."""
    target: str
    """torch's name of the callee: `torch.nn.functional.linear`, `add`, `aten.mul.Tensor`."""
    args: str = ""
    """Arguments as text, including kwargs."""
    inputs: tuple[str, ...] = ()
    """Nodes that it reads, in order."""
    dtype: str | None = None
    """None if the value is not a tensor, as for the next fields."""
    shape: tuple[str, ...] | None = None
    """One text per dimension: a number, or a symbol such as `s77`."""
    stride: tuple[str, ...] | None = None
    contiguous: bool = True
    device: str | None = None
    location: Location | None = None
    """Innermost line of user code."""
    stack: tuple[Location, ...] = ()
    """All frames of user code, outermost first."""
    module: str | None = None
    """Path of the module that runs it, e.g. `self.blocks.0.norm`."""
    origins: tuple[str, ...] = ()
    """Dynamo nodes that an AOT or post-grad node comes from."""
    user_op: UserOp | None = None
    """The user's kernel or op that it calls; None for torch's ops."""

    @property
    def packet(self) -> str:
        """Its op without the overload: `aten.mul` for `aten.mul.Tensor`."""
        return packet(self.target)

    @property
    def is_view(self) -> bool:
        """Whether a node of AOTAutograd or Inductor moves no data: a view, or an item of a tuple."""
        return self.op == "call_function" and self.packet in _VIEWS

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element; None if not a tensor."""
        return _itemsize(self.dtype or "")

    @property
    def tensor_bytes(self) -> int | None:
        """Size of the tensor; None if its sizes are symbolic or it is not a tensor."""
        if self.itemsize is None or self.shape is None or not all(size.isdecimal() for size in self.shape):
            return None
        return self.itemsize * math.prod(map(int, self.shape))

    # Processes send each other a million nodes of a trace: dataclasses' own methods take two to three times as long.

    def __getstate__(self) -> tuple[object, ...]:
        return _node_values(self)

    def __setstate__(self, values: tuple[object, ...]) -> None:
        for write, value in zip(_NODE_WRITERS, values, strict=True):
            write(self, value)


_NODE_FIELDS = tuple(field.name for field in fields(FxNode))
_node_values = attrgetter(*_NODE_FIELDS)
_NODE_WRITERS = tuple(getattr(FxNode, name).__set__ for name in _NODE_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """A graph inside a node of another graph: a branch of `torch.cond`, the body of a loop."""

    name: str
    """Path of the attribute that holds it, e.g. `cond_true_0`, or `cond_true_0.cond_false_1` if nested."""
    node: str
    """Name of the first node that runs it."""
    nodes: tuple[FxNode, ...]
    """The names of its nodes, and their inputs, begin with the path: `cond_true_0.mul`."""


def with_subgraphs(nodes: tuple[FxNode, ...], subgraphs: tuple[Subgraph, ...]) -> tuple[FxNode, ...]:
    """Return the nodes of a graph and of its subgraphs."""
    return (*nodes, *(node for subgraph in subgraphs for node in subgraph.nodes)) if subgraphs else nodes


def subgraph_of(nodes: Iterable[str]) -> str:
    """Return the outermost subgraph of nodes, whose names begin with it (`body.mm`); empty for none."""
    return next((name.partition(".")[0] for name in nodes if "." in name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedModule:
    """A module that runs a node of a graph, or its frame."""

    source: str
    """Its path in the nodes, from a variable of the frame."""
    type: str
    """Name of its class."""
    path: str | None
    """Path from the outermost module that runs, without the names of torch's wrappers; None if it is unknown."""
    root: str
    """Class of that module, with a number if the program has several of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCaptured(Event):
    """A Dynamo graph, before the backend runs."""

    graph: str
    """Compile id, e.g. `0/0`."""
    ops: int
    """Call nodes."""
    nodes: tuple[FxNode, ...]
    code: str
    """torch's readable form."""
    subgraphs: tuple[Subgraph, ...] = ()
    frame: Location | None = None
    """The frame that was compiled."""
    module: str | None = None
    """Path of the module whose `forward` is the frame, from the compiled module: `layers.3`, empty for that module.

    None if the frame is of a function, or if the path is unknown.
    """
    root: str = ""
    """Class of the module from which `module` is the path, with a number if the program has several of it."""
    modules: tuple[CapturedModule, ...] = ()
    """The module of the frame, and each module that runs a node."""

    @property
    def all_nodes(self) -> tuple[FxNode, ...]:
        return with_subgraphs(self.nodes, self.subgraphs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSplit(Event):
    """A part of a graph that is compiled separately: by DDP, so that the gradients of one bucket are ready early."""

    graph: str
    part: str
    """torch's name, e.g. `submod_0`."""
    ops: int
    """Call nodes."""
    parameter_bytes: int | None = None
    """Size of its parameters: of the bucket; None if a size is symbolic."""
    first: Location | None = None
    """Line of its first node in user code."""
    last: Location | None = None
    modules: tuple[str, ...] = ()
    """The user's modules whose parameters are in the part, in the order of their use."""
    origin: Literal["ddp", "vllm"] = "ddp"
    """What splits the graph: DDP's optimizer, or vLLM, at attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceCompiled(Event):
    """vLLM compiles a part of a graph for a range of sizes."""

    graph: str
    part: str
    first: int
    last: int
    """Largest size of the range; equal to `first` for one size."""
    cuda_graph: bool = False
    """Whether a CUDA graph is captured for this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesMerged(Event):
    """Inductor merged several collectives into one per bucket."""

    graph: str
    op: str
    buckets: tuple[tuple[str, ...], ...]
    """Nodes of each bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak(Event):
    """A place where Dynamo could not continue the graph."""

    graph: str
    """Compile id of the frame that was traced."""
    registry_id: str | None
    """torch's id of the kind, e.g. `GB0170`; None if torch gives none."""
    kind: str
    """torch's `gb_type`."""
    reason: str
    """The reason in one sentence."""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    registry_explanation: str = ""
    """From torch's registry of graph breaks."""
    registry_hints: tuple[str, ...] = ()
    url: str = ""
    location: Location | None = None
    code: str = ""
    """The source line."""
    stack: tuple[Location, ...] = ()
    """All frames of user code, outermost first."""
    count: int = 1
    """Number of reports of the place: by nested frames, and by several expressions of its line."""
    module: str | None = None
    """Path of the innermost module that runs the line; None if it is in no module, or unknown."""
    root: str = ""
    """Class of the module from which `module` is the path, with a number if the program has several of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSkipped(Event):
    """A frame that Dynamo did not compile."""

    frame: Location
    reason: str
    """torch's reason."""
    graph: str | None = None
    has_ops: bool = True
    """Whether it may run tensor operations, which then run eagerly."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A bytecode instruction."""

    offset: int
    op: str
    """Name of the opcode, as in `dis`."""
    arg: int | None = None
    value: str = ""
    """What `arg` stands for, as in `dis`: a name, a constant, `NULL + print`; empty for none."""
    line: int | None = None
    """The user's line; None for what Dynamo adds."""
    target: int | None = None
    """Offset that it may jump to."""


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """A function with the rest of another one, after a graph break."""

    variable: str
    """The global variable that holds it."""
    code_name: str
    """torch's name: `torch_dynamo_resume_in_forward_at_12`; empty if unknown, as in a trace."""
    line: int | None
    """The line of the graph break; None if unknown."""
    parameters: tuple[str, ...] = ()
    goes_on: int | None = None
    """The line that it begins with: after a branch, another one than that of the break; None if unknown."""
    number: int = 0
    """Number of its code in this run; 0 if unknown. Two functions after one branch have the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRewritten(Event):
    """The bytecode that runs in place of a function with a graph break, or of the rest of one."""

    graph: str
    """Compile id."""
    name: str
    """The user's name: `forward`."""
    code_name: str
    """torch's name: of a resume function, `torch_dynamo_resume_in_forward_at_12`."""
    resumed: int | None = None
    """The line of the graph break that a resume function follows; None for any other function."""
    frame: Location | None = None
    """First line of the function, of a resume function the line of the break; None if it is not in the user's files."""
    goes_on: int | None = None
    """As in `ResumeFunction`, like `number`."""
    number: int = 0
    instructions: tuple[Instruction, ...]
    resumes: tuple[ResumeFunction, ...] = ()
    """The resume functions that it may call."""
    dropped: int = 0
    """Further instructions, which are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRestarted(Event):
    """An attempt to trace a frame that torch gave up: it traced the frame again, and only the last attempt counts."""

    graph: str
    kind: str
    """torch's name of the reason: that of a graph break, or the class of the restart."""
    reason: str
    """A sentence; of a break, the same as in the list of breaks."""
    location: Location | None = None
    """The user's line that caused it, else the line of the function."""
    code: str = ""
    """Text of the line."""
    count: int = 1
    """Attempts that were given up for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A condition under which a compiled graph may be used again."""

    kind: str
    """torch's guard type, e.g. `TENSOR_MATCH`."""
    source: str
    """The value that it checks, e.g. `L['x']`."""
    code: tuple[str, ...] = ()
    """Expressions that check it."""
    summary: str = ""
    """Readable form, e.g. `f32[64, 512] cpu`."""
    structural: bool = False
    """Checks the identity of modules or torch internals."""
    location: Location | None = None
    """The line of user code that required it."""
    user_code: str = ""
    name: str = ""
    """Readable form of `source`, e.g. `x`."""

    @property
    def is_of_break_value(self) -> bool:
        """Whether the code after a graph break was compiled for one value of what broke the graph."""
        return self.kind == "EQUALS_MATCH" and self.source.startswith("L['___stack")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardsInstalled(Event):
    """All guards of one graph."""

    graph: str
    guards: tuple[Guard, ...]
    latency_us: float | None = None
    """torch's measurement of the first check, with cold caches; None if it gives none. Warm checks are much faster."""


RecompileKind = Literal[
    "size", "stride", "rank", "dtype", "dispatch", "requires_grad", "tensor", "grad mode", "global state", "aliasing",
    "condition", "length", "type", "identity", "bool", "int", "float", "value", "backend", "",
]  # fmt: skip
"""The kind of change that fails a guard, empty if unknown. `condition`: a condition on symbolic sizes. `identity`:
another object. `type`: an object of another type. `bool` to `value`: another constant, by the type of the new value.
`tensor`: any other difference between two tensors. `backend`: only other backends, modes or options have entries."""

ValueOrigin = Literal["argument", "attribute", "global", "closure", "break", ""]
"""Where a guarded value comes from, empty if unknown. `attribute` is one of a module or object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled(Event):
    """A frame was compiled again because a guard of an earlier entry failed."""

    graph: str
    """The new compile id."""
    failed_entry: str
    failed_guard: str
    reason: str
    old: str = ""
    """The value that the code was compiled for, empty if unknown."""
    new: str = ""
    """The value of this call, empty if unknown."""
    location: Location | None = None
    entry_count: int | None = None
    """The number of cache entries of the frame after this compile."""
    limit: int | None = None
    limit_hit: bool = False
    kind: RecompileKind = ""
    name: str = ""
    """The guarded value (`x`, `self.scale`)."""
    dim: int | None = None
    """The dimension of a tensor that differs, if any."""
    origin: ValueOrigin = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEntered(Event):
    """Dynamo is about to compile a frame, or skips it because of a limit."""

    graph: str
    """Compile id."""
    frame: Location | None = None
    """The function; None if it is not user code."""
    resumed: bool = False
    """Whether this is a resume function after a graph break."""
    caller: Location | None = None
    """Line of user code that called into compiled code."""
    entry_count: int = 0
    """Number of existing cache entries."""
    counted_entries: int | None = None
    """Existing entries that count towards `limit`: those that guard the same objects."""
    total_entries: int | None = None
    """Existing entries in all caches of this code, which count towards `accumulated_limit`."""
    isolation: int = -1
    """Number of the separate cache of an `isolate_recompiles=True`, negative for the shared cache."""
    limit: int | None = None
    """Maximum number of cache entries in one compiled region (`recompile_limit`)."""
    accumulated_limit: int | None = None
    """Maximum number of compiles in total (`accumulated_recompile_limit`)."""
    limit_hit: str = ""
    """Name of the limit that was reached; empty for none."""
    error_at_limit: bool = False
    """Reaching a limit is an error (`fullgraph=True`, `fail_on_recompile_limit_hit`), not a fallback to eager."""
    call: int | None = None
    """Call of the model file, from 1; the session counts it. None in a script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraCompiles(Event):
    """Compiles so far in tcexplore's own calls, which compare and time the program: its state makes each call differ.

    They are not among the graphs and recompiles. The newest event replaces the last one.
    """

    compiles: int
    limit_hit: bool = False
    """Whether a recompile limit was reached, so that later calls ran eagerly."""
    reason: str = ""
    """The first guard that failed."""
