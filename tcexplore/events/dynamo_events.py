"""What Dynamo did: graphs, graph breaks, skipped frames, guards, recompiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FxNode:
    """One node of an FX graph.

    `target` is torch's name for what is called (`torch.nn.functional.linear`, `add`, `aten.mul.Tensor`);
    `args` the arguments as text, kwargs included; `inputs` the names of the nodes it reads, in order.
    `shape` and `stride` hold one text per dimension (a number or a symbol such as `s0`); None where the
    value is no tensor. `location` is the user's innermost line, `stack` all of the user's frames, outermost
    first; `module` the path of the module that ran it (`self.blocks.0.norm`).
    """

    name: str
    op: str
    target: str
    args: str = ""
    inputs: tuple[str, ...] = ()
    dtype: str | None = None
    shape: tuple[str, ...] | None = None
    stride: tuple[str, ...] | None = None
    contiguous: bool = True
    device: str | None = None
    location: Location | None = None
    stack: tuple[Location, ...] = ()
    module: str | None = None
    origins: tuple[str, ...] = ()
    """For AOT and post-grad nodes: names of the Dynamo nodes that this one came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCaptured(Event):
    """One Dynamo FX graph, before the backend runs. `graph` is its compile id, e.g. `0/0`.

    `ops` counts the call nodes (placeholders, attributes and output are none). `code` is torch's readable form.
    `frame` is the frame that was compiled.
    """

    graph: str
    ops: int
    nodes: tuple[FxNode, ...]
    code: str
    frame: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak(Event):
    """A place where Dynamo had to leave the graph.

    `id` is torch's registry id (`GB0170`), None where this torch gives none. `kind` is torch's `gb_type`; `reason`
    the same in plain words; `registry_explanation` and `registry_hints` what torch's shipped registry says of the id.
    `graph` is the compile id of the frame being traced; `stack` the whole user stack, outermost first.
    The same place reported twice (nested frames) arrives once, `count` then says how often.
    """

    graph: str
    id: str | None
    kind: str
    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    registry_explanation: str = ""
    registry_hints: tuple[str, ...] = ()
    url: str = ""
    location: Location | None = None
    code: str = ""
    """The user's line, as written."""
    stack: tuple[Location, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSkipped(Event):
    """A frame that Dynamo did not compile, and torch's reason."""

    frame: Location
    reason: str
    graph: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerOps(Event):
    """Ops that one call of the compiled program ran outside every graph, found by profiling that call.

    `ops` has (op name, times it ran, total microseconds); `regions` how often a compiled region was entered.
    """

    ops: tuple[tuple[str, int, float], ...]
    region_entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A condition under which the compiled graph may be used again.

    `kind` is torch's guard type (`TENSOR_MATCH`); `source` what is looked at (`L['x']`); `code` the expressions
    that check it; `name` and `summary` the same readable (`x`, `f32[64, 512] cpu`); `structural` is set for identity
    checks on modules and torch internals that nobody edits; `location` and `user_code` the user's line that made it
    necessary.
    """

    kind: str
    source: str
    code: tuple[str, ...] = ()
    summary: str = ""
    structural: bool = False
    location: Location | None = None
    user_code: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardsInstalled(Event):
    """All guards of one graph. `latency_us` is torch's own measurement of one check, None where it gives none."""

    graph: str
    guards: tuple[Guard, ...]
    latency_us: float | None = None


RecompileKind = Literal[
    "size", "stride", "rank", "dtype", "dispatch", "requires_grad", "tensor", "grad mode", "global state", "aliasing",
    "condition", "length", "type", "identity", "bool", "int", "float", "value", "",
]  # fmt: skip
"""The kind of change that fails a guard, empty if unknown. `condition` is one on symbolic sizes; `identity` is another
object, `type` an object of another type; `bool` to `value` are constants, by the type of the new value; `tensor` is any
other difference of two tensors."""

ValueOrigin = Literal["argument", "attribute", "global", "closure", ""]
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
    """Dynamo is about to compile a frame, or gives it up because of its limit.

    `graph` is the compile id. `frame` is the function, `resumed` tells that it is its rest after a graph break; None
    for a frame that is none of the user's. `caller` is the user's line that called into compiled code.
    `entries` is how many cache entries the frame has already, `limit` how many it may have in one compiled region
    (`recompile_limit`), `accumulated_limit` how often it may be compiled in all.
    `limit_hit` names the limit that was reached, empty where none was; `raises` says that reaching one is an error
    here (`fullgraph=True`, `fail_on_recompile_limit_hit`) and not a silent fall-back to eager.
    """

    graph: str
    frame: Location | None = None
    resumed: bool = False
    caller: Location | None = None
    entry_count: int = 0
    limit: int | None = None
    accumulated_limit: int | None = None
    limit_hit: str = ""
    error_at_limit: bool = False
    call: int | None = None
    """The file's call that was being made, from 1; the session counts it, None in a script."""
