"""What lives at the peak of memory of one call, from the allocations in the generated code.

The wrappers of Inductor allocate, reuse and free each buffer by a statement. They are followed in the order of a call:
the forwards, then the backwards in reverse. Parameters and inputs exist before the call and do not count. Memory that a
library call allocates for itself, such as cuDNN's workspaces, is not in the code.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod

from tcexplore import events as ev
from tcexplore.events.base import frame_number
from tcexplore.events.result_events import TensorKind
from tcexplore.session.graph_inputs import input_index
from tcexplore.session.identity_cache import by_identity
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE

MOST_REASON_OPS = 3


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A tensor that is alive at the peak."""

    name: str
    """Buffer of the generated code, with the graph's node if it is known: `buf5 (addmm_1)`."""
    bytes: int
    kind: TensorKind
    op: str
    """ATen op that computes it; empty if unknown."""
    location: ev.Location | None
    module: str | None
    born: int | None
    """Position in the schedule of the kernel that computes it, from 0; None if it exists before the call."""
    dies: int | None
    """Position of the last kernel that uses it; None if it outlives the call."""
    reason: str


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The peak of one call."""

    bytes: int
    """Above what exists before the call."""
    step: int
    """Position of the peak in the schedule."""
    steps: int
    """Kernels of the schedule, or ops of an eager call: those of the forwards, then of the backwards."""
    forward_steps: int
    phase: ev.GraphPhase
    kernel: str
    """Kernel that runs next at the peak, or the eager op; empty at the end of the call."""
    tensors: tuple[LiveTensor, ...]
    """The largest first; those that exist before the call at the end."""
    history: tuple[int, ...]
    """Bytes alive while each kernel runs."""
    unknown: tuple[str, ...] = ()
    """Buffers of unknown size, which do not count."""

    @property
    def allocated(self) -> tuple[LiveTensor, ...]:
        """The tensors that the call allocates."""
        return tuple(tensor for tensor in self.tensors if tensor.kind not in ("parameter", "input"))


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one kind that an op on one line computes, in modules whose paths differ in numbers only."""

    tensors: tuple[LiveTensor, ...]

    @property
    def first(self) -> LiveTensor:
        return self.tensors[0]

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def module(self) -> str | None:
        """Path of the module, with `*` for each number that differs."""
        paths = list(dict.fromkeys(tensor.module for tensor in self.tensors))
        if len(paths) == 1 or None in paths:
            return paths[0]
        parts = zip(*(str(path).split(".") for path in paths), strict=True)
        return ".".join(part[0] if len(set(part)) == 1 else "*" for part in parts)

    @property
    def reason(self) -> str:
        """Why they are alive: of several that of the first, without the number of its kernel."""
        reason = self.first.reason
        return reason if len(self.tensors) == 1 else _CALL_NUMBER.sub("", reason)

    def in_use(self, peak: MemoryPeak) -> tuple[int, ...]:
        """Return the bytes in use at each position of the schedule."""
        changes = [0] * (peak.steps + 1)
        for tensor in self.tensors:
            first, last = lifetime(tensor, peak)
            changes[first] += tensor.bytes
            changes[last + 1] -= tensor.bytes
        return tuple(accumulate(changes[: peak.steps]))


_CALL_NUMBER = re.compile(r"(?<=\w):\d+|_\d+(?= \()")


def lifetime(tensor: LiveTensor, peak: MemoryPeak) -> tuple[int, int]:
    """Return the first and the last position at which a tensor is in use: it is at the peak."""
    last = peak.steps - 1
    at = min(peak.step, last)
    born = at if tensor.born is None else min(tensor.born, at)
    return born, last if tensor.dies is None and tensor.kind != "workspace" else min(max(tensor.dies or 0, at), last)


def groups(tensors: Iterable[LiveTensor]) -> tuple[TensorGroup, ...]:
    """Return the tensors in groups, the largest first."""
    found: dict[object, list[LiveTensor]] = {}
    for tensor in tensors:
        module = re.sub(r"\d+", "*", tensor.module or "")
        found.setdefault((tensor.kind, tensor.op, tensor.location, module, tensor.op == ""), []).append(tensor)
    return tuple(sorted((TensorGroup(tuple(some)) for some in found.values()), key=lambda group: -group.bytes))


@dataclass(slots=True)
class _Tensor:
    name: str
    bytes: int
    kind: TensorKind
    counts: bool = True
    """Whether it is allocated in the call."""
    node: ev.FxNode | None = None
    call: ev.KernelCall | None = None
    kernel: str = ""
    graph: str = ""
    born: int | None = None
    used: int | None = None
    users: list[str] = field(default_factory=list)
    """Kernels that read it, in order."""
    backward_users: list[str] = field(default_factory=list)
    written: bool = False
    outlives: bool = False
    storage: int = 0
    replaces: _Tensor | None = None
    """The tensor that was in its memory: the kernel that stores this one may read it in place."""
    reused_by: _Tensor | None = None
    """The tensor that takes its memory."""


def memory_peak(snapshot: Snapshot) -> MemoryPeak | None:
    """Return the peak of one call, cached; None without code that allocates, or with a graph in parts."""
    code = snapshot.code_for(NATIVE)
    return _peak(code.wrappers, code.kernels, code.aten_graphs, snapshot.graphs, snapshot.symbols, snapshot.frames)


@by_identity(4)
def _peak(
    wrappers: tuple[ev.Wrapper, ...], kernels: tuple[ev.Kernel, ...], aten: tuple[ev.AtenGraph, ...],
    graphs: tuple[ev.GraphCaptured, ...], symbols: tuple[ev.GraphSymbols, ...], frames: tuple[ev.FrameEntered, ...],
) -> MemoryPeak | None:  # fmt: skip
    ordered = _in_order(wrappers)
    if not ordered or _graph_in_parts(ordered):
        return None
    resumed = {frame_number(entered.graph) for entered in frames if entered.resumed}
    call = _Call(kernels, aten, graphs, symbols, resumed)
    for wrapper in ordered:
        call.run(wrapper)
    return call.peak()


def peak_graphs(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the compile ids of the graphs that `memory_peak` follows."""
    return tuple(dict.fromkeys(wrapper.graph for wrapper in _in_order(snapshot.code_for(NATIVE).wrappers)))


def why_unexplained(snapshot: Snapshot) -> str:
    """Return why the peak of the compiled call is not known by tensors; empty if it is."""
    graph = _graph_in_parts(_in_order(snapshot.code_for(NATIVE).wrappers))
    return f"graph {graph} is compiled in several parts by DDP, which are not followed" if graph else ""


def _graph_in_parts(wrappers: Sequence[ev.Wrapper]) -> str:
    """Return the compile id of a graph with several generated forwards."""
    forwards = Counter(wrapper.graph for wrapper in wrappers if wrapper.phase == "forward")
    return next((graph for graph, number in forwards.items() if number > 1), "")


def eager_memory_peak(snapshot: Snapshot) -> MemoryPeak | None:
    """Return the peak of one eager call, as it was recorded op by op; None if it was not."""
    peak = snapshot.eager_peak
    if peak is None:
        return None
    return MemoryPeak(
        bytes=peak.bytes, step=peak.step, steps=peak.steps, forward_steps=peak.forward_steps, phase=peak.phase,
        kernel=peak.op, tensors=tuple(map(_eager_tensor, peak.tensors)), history=peak.history,
    )  # fmt: skip


EAGER_REASONS: dict[TensorKind, str] = {
    "activation": "autograd saves it for the backward",
    "output": "an output of the call: it counts to the end, since the caller may hold it",
    "gradient": "a gradient that the backward returns",
    "temporary": "in use, or a variable still refers to it",
}


def _eager_tensor(tensor: ev.EagerTensor) -> LiveTensor:
    return LiveTensor(
        name=tensor.op, bytes=tensor.bytes, kind=tensor.kind, op=tensor.op, location=tensor.location,
        module=tensor.module, born=tensor.born, dies=tensor.dies, reason=EAGER_REASONS.get(tensor.kind, ""),
    )  # fmt: skip


ROUNDED = 512
"""Bytes to which the allocator of a GPU rounds up."""

UNSPLIT = 1 << 20
"""Bytes that a block of the allocator of a GPU may be larger than what it holds: it does not split off a small rest."""


@dataclass(frozen=True, slots=True)
class NamedPeak:
    """How much of a measured peak is explained: by tensors, by scratch memory of ops, and by the allocator."""

    measured: int
    tensors: int
    """Bytes of tensors with a name."""
    scratch: tuple[LiveTensor, ...] = ()
    """Memory that library calls allocate for themselves, by op."""
    rounding: int = 0
    """Bytes that the allocator adds to what the program asks for; 0 on a CPU."""

    @property
    def named(self) -> int:
        """Bytes with a name."""
        return self.tensors + sum(tensor.bytes for tensor in self.scratch) + self.rounding

    @property
    def share(self) -> float:
        """`named` as a share of the peak, at most 1."""
        return min(1.0, self.named / self.measured) if self.measured else 1.0


def named_peak(snapshot: Snapshot) -> NamedPeak | None:
    """Return how much of the compiled call's peak has a name; None without a recording of the allocator."""
    held, peak = snapshot.peak_allocations, memory_peak(snapshot)
    if held is None or snapshot.memory is None or snapshot.memory.compiled_peak is None or why_unexplained(snapshot):
        return None
    allocated = peak.allocated if peak is not None else ()
    return name_allocations(held, allocated, snapshot.memory.compiled_peak)


def name_allocations(held: ev.PeakAllocations, allocated: Sequence[LiveTensor], measured: int) -> NamedPeak:
    """Match the tensors of the code with what the allocator held; what is left in an op is its scratch memory."""
    waiting: dict[int, list[ev.Allocation]] = {}
    for allocation in sorted(held.allocations, key=lambda one: bool(one.op), reverse=True):
        waiting.setdefault(-(-allocation.bytes // ROUNDED), []).append(allocation)
    matched = 0
    without: list[LiveTensor] = []
    for tensor in allocated:
        same = waiting.get(-(-tensor.bytes // ROUNDED))
        if same:
            same.pop()
            matched += tensor.bytes
        else:
            without.append(tensor)
    left = sorted((one for several in waiting.values() for one in several), key=lambda one: one.bytes)
    for tensor in sorted(without, key=lambda one: -one.bytes) if held.requested is not None else ():
        fitting = (one for one in left if UNSPLIT < tensor.bytes <= one.bytes <= tensor.bytes + UNSPLIT)
        if (block := next(fitting, None)) is not None:
            left.remove(block)
            matched += tensor.bytes
    scratch: dict[str, int] = {}
    for allocation in left:
        if allocation.op:
            scratch[allocation.op] = scratch.get(allocation.op, 0) + allocation.bytes
    rounding = max(0, held.bytes - held.requested) if held.requested is not None else 0
    return NamedPeak(measured, matched, tuple(_scratch(op, size) for op, size in scratch.items()), rounding)


def _scratch(op: str, size: int) -> LiveTensor:
    name = op.replace("::", ".")
    return LiveTensor(
        name=name, bytes=size, kind="workspace", op=name, location=None, module=None, born=None, dies=None,
        reason=f"memory that {name} allocates for itself, as the allocator recorded it",
    )  # fmt: skip


def _in_order(wrappers: Sequence[ev.Wrapper]) -> list[ev.Wrapper]:
    """Return the wrappers of one call: of each frame those of the newest entry, the forwards, then the backwards.

    An entry without a backward that an older one has does not count: its backward is compiled later, or never. The
    backwards run in the opposite order of the forwards, whenever they are compiled.
    """
    with_backward = {wrapper.graph for wrapper in wrappers if wrapper.phase == "backward"}
    newest: dict[str, str] = {}
    for wrapper in wrappers:
        frame = wrapper.graph.partition("/")[0]
        if wrapper.graph in with_backward or newest.get(frame) not in with_backward:
            newest[frame] = wrapper.graph
    own = [wrapper for wrapper in wrappers if newest[wrapper.graph.partition("/")[0]] == wrapper.graph]
    own = list({(wrapper.graph, wrapper.phase, wrapper.source): wrapper for wrapper in own}.values())
    forwards = [wrapper for wrapper in own if wrapper.phase == "forward"]
    places = {wrapper.graph: place for place, wrapper in enumerate(forwards)}
    backwards = [wrapper for wrapper in own if wrapper.phase == "backward"]
    return [*forwards, *sorted(backwards, key=lambda wrapper: -places.get(wrapper.graph, -1))]


# ---- statements of a wrapper

_ALLOCATED = re.compile(r"^(\w+) = empty_strided(?:_\w+)?\((\(.*?\)), (\(.*?\)), (?:dtype=)?torch\.(\w+)")
_WORKSPACE = re.compile(r"^workspace")
_RENAMED = re.compile(r"^(\w+) = (?:reinterpret_tensor\((\w+),.*\)|(\w+)); del (\w+)(?:  # reuse)?$")
_ALIAS = re.compile(r"^(\w+) = (?:reinterpret_tensor\((\w+),.*\)|(\w+)(?:\[\d+\])?)$")
_DELETED = re.compile(r"^del (\w+(?:, \w+)*)$")
_UNPACKED = re.compile(r"^(\w+(?:, \w+)*),? = args$")
_EXTERN = re.compile(r"^(?:(\w+) = )?((?:extern_kernels|aten|torch\.ops)\.[\w.]+)\(")
_ITEM = re.compile(r"^(\w+) = (\w+)\[(\d+)\]$")
_NAME = re.compile(r"\w+")
_ITEMSIZE = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2,
}  # fmt: skip


def statements(source: str) -> Iterator[str]:
    """Yield the statements of a wrapper's functions, joined if they span lines, without comments."""
    pending = ""
    inside = False
    for line in source.split("\n"):
        if line.startswith(("def benchmark_compiled_module", "def get_args")):
            return
        code = line.strip()
        if code.startswith(("def call(", "def partition_")):
            inside = True
        if not inside or not code or code.startswith("#") or not line.startswith(" "):
            continue
        pending = f"{pending} {code}" if pending else code
        if pending.count("(") > pending.count(")") and len(pending) < 100_000:
            continue
        yield pending
        pending = ""


class _Call:
    """A call while its wrappers are followed."""

    def __init__(
        self, kernels: Iterable[ev.Kernel], aten: Iterable[ev.AtenGraph], graphs: Iterable[ev.GraphCaptured],
        symbols: Iterable[ev.GraphSymbols], resumed: Collection[str],
    ) -> None:  # fmt: skip
        self._resumed = resumed
        """Numbers of the frames that resume after a graph break: torch numbers them in the order of a call."""
        self._kernels: dict[tuple[str, str], dict[int, tuple[ev.Kernel, ev.KernelCall]]] = {}
        self._names: dict[tuple[str, str], set[str]] = {}
        for kernel in kernels:
            key = (kernel.graph, kernel.phase)
            self._names.setdefault(key, set()).add(kernel.name.partition(":")[0])
            for call in kernel.calls:
                self._kernels.setdefault(key, {})[call.order] = (kernel, call)
        self._graphs = {(graph.graph, graph.stage, graph.phase): graph for graph in aten}
        self._dynamo = {(g.graph, node.name): node for g in graphs for node in g.all_nodes}
        self._placeholders = {g.graph: [node for node in g.nodes if node.op == "placeholder"] for g in graphs}
        self._hints = {s.graph: {symbol.name: symbol.hint for symbol in s.symbols} for s in symbols}
        self._step = self._forward_steps = 0
        self._storages: dict[int, int] = {}
        """Bytes of each storage that counts."""
        self._live: dict[int, _Tensor] = {}
        """The tensor in each storage."""
        self._holders: dict[int, set[str]] = {}
        self._vars: dict[str, int] = {}
        self._next = 0
        self._all: list[_Tensor] = []
        self._bytes = 0
        self._best = -1
        self._at: tuple[int, ev.GraphPhase] = (0, "forward")
        self._at_peak: dict[int, _Tensor] = {}
        """The tensor in each storage at the peak so far."""
        self._changed: set[int] = set()
        """Storages that have another tensor than at the peak so far: most of a large run stays."""
        self._nodes: dict[tuple[str, ev.AtenStage, ev.GraphPhase], dict[str, ev.FxNode]] = {}
        self._history: list[int] = []
        self._kernel_names: list[str] = []
        self._unknown: list[str] = []
        self._saved: dict[tuple[str, str], int] = {}
        """Storage of each tensor that a forward saves, by graph and name."""
        self._known_before: dict[str, _Tensor] = {}

    def run(self, wrapper: ev.Wrapper) -> None:
        """Follow one wrapper."""
        graph, phase = wrapper.graph, wrapper.phase
        self._vars = {}
        order = 0
        names = self._names.get((graph, phase), set())
        for code in statements(wrapper.source):
            if (match := _UNPACKED.match(code)) is not None:
                self._unpack(wrapper, match[1].split(", "))
            elif (match := _ALLOCATED.match(code)) is not None:
                self._allocate(wrapper, match)
            elif code.startswith("return ("):
                self._return(wrapper, code)
            elif (match := _DELETED.match(code)) is not None:
                for name in match[1].split(", "):
                    self._delete(name)
            elif (match := _RENAMED.match(code)) is not None:
                self._rename(match[1], match[2] or match[3], match[4])
            elif self._is_call(code, names):
                self._run_kernel(wrapper, code, order)
                order += 1
            elif (match := _ITEM.match(code)) is not None and match[2] in self._vars:
                self._item(match[1], match[2], match[3])
            elif (match := _ALIAS.match(code)) is not None and (match[2] or match[3]) in self._vars:
                self._hold(match[1], self._vars[match[2] or match[3]])
        for name in list(self._vars):
            self._delete(name)

    @staticmethod
    def _is_call(code: str, names: set[str]) -> bool:
        head = code.partition("(")[0].strip().removesuffix(".run")
        return head in names or _EXTERN.match(code) is not None

    def _unpack(self, wrapper: ev.Wrapper, names: Sequence[str]) -> None:
        stage = "backward" if wrapper.phase == "backward" else "forward"
        aten = self._aten(wrapper.graph, stage)
        nodes = {node.name: node for node in aten.nodes} if aten is not None else {}
        for name in names:
            saved = self._saved.pop((wrapper.graph, name), None) if wrapper.phase == "backward" else None
            if saved is not None and saved in self._live:
                self._hold(name, saved)
                self._holders[saved].discard(f"saved {wrapper.graph} {name}")
                continue
            node = nodes.get(name)
            size = self._node_bytes(node, wrapper.graph)
            if name.startswith("tangents_"):
                tensor = _Tensor(name, size or 0, "gradient", node=node, graph=wrapper.graph, written=True)
                self._add(name, tensor)
            elif size is not None:
                self._external(wrapper.graph, name, node, size)

    def _external(self, graph: str, name: str, node: ev.FxNode | None, size: int) -> None:
        """Add a parameter or an input: it exists before the call."""
        known = self._known_before.get(f"{graph} {name}")
        if known is None:
            source = self._source_name(graph, name)
            kind: TensorKind = "parameter" if "." in source and "[" not in source else "input"
            known = _Tensor(source or name, size, kind, counts=False, node=node, graph=graph, written=True)
            self._known_before[f"{graph} {name}"] = known
        self._add(name, known)
        self._holders[self._vars[name]].add("caller")

    def _source_name(self, graph: str, name: str) -> str:
        """Return the readable name of `primals_N` or `argN_1`: AOTAutograd keeps the order of Dynamo's inputs."""
        index, placeholders = input_index(name), self._placeholders.get(graph, [])
        return placeholders[index].target if index is not None and 0 <= index < len(placeholders) else ""

    def _aten(self, graph: str, stage: str) -> ev.AtenGraph | None:
        if stage == "backward":
            return self._graphs.get((graph, "backward", "backward"))
        return self._graphs.get((graph, "forward", "forward")) or self._graphs.get((graph, "inference", "forward"))

    def _nodes_of(self, graph: str, stage: ev.AtenStage, phase: ev.GraphPhase) -> dict[str, ev.FxNode]:
        """Return the nodes of a graph below Dynamo's by name."""
        key = graph, stage, phase
        if key not in self._nodes:
            aten = self._graphs.get(key)
            self._nodes[key] = {node.name: node for node in aten.all_nodes} if aten is not None else {}
        return self._nodes[key]

    # ---- storages

    def _add(self, name: str, tensor: _Tensor) -> None:
        self._next += 1
        tensor.storage = self._next
        self._live[self._next] = tensor
        self._changed.add(self._next)
        self._all.append(tensor)
        self._storages[self._next] = tensor.bytes if tensor.counts else 0
        self._bytes += self._storages[self._next]
        self._holders[self._next] = set()
        self._hold(name, self._next)

    def _hold(self, name: str, storage: int) -> None:
        self._delete(name)
        self._vars[name] = storage
        self._holders[storage].add(name)

    def _delete(self, name: str) -> None:
        storage = self._vars.pop(name, None)
        if storage is None:
            return
        for part in [known for known in self._vars if known.startswith(f"{name}[")]:
            self._delete(part)
        self._holders[storage].discard(name)
        if not self._holders[storage]:
            self._bytes -= self._storages[storage]
            self._live.pop(storage, None)
            self._changed.add(storage)

    def _rename(self, name: str, other: str, deleted: str) -> None:
        storage = self._vars.get(other)
        if storage is None:
            return
        old = self._live[storage]
        self._hold(name, storage)
        self._delete(deleted)
        if old.written and old.counts:
            tensor = _Tensor(name, old.bytes, "temporary", graph=old.graph, storage=storage, replaces=old)
            old.reused_by = tensor
            self._live[storage] = tensor
            self._changed.add(storage)
            self._all.append(tensor)
        elif old.counts:
            old.name = name

    def _allocate(self, wrapper: ev.Wrapper, match: re.Match[str]) -> None:
        sizes, strides = (self._numbers(text, wrapper.graph) for text in (match[2], match[3]))
        name, item = match[1], _ITEMSIZE.get(match[4], 1)
        if sizes is None or strides is None:
            self._unknown.append(name)
            size = 0
        else:
            extent = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=False))
            size = item * extent if all(sizes) else 0
        kind: TensorKind = "workspace" if _WORKSPACE.match(name) else "temporary"
        self._add(name, _Tensor(name, size, kind, graph=wrapper.graph))
        self._note(wrapper.phase)

    def _note(self, phase: ev.GraphPhase) -> None:
        if self._bytes > self._best:
            self._best = self._bytes
            self._at = (self._step, phase)
            for storage in sorted(self._changed):
                if storage in self._live:
                    self._at_peak[storage] = self._live[storage]
                else:
                    self._at_peak.pop(storage, None)
            self._changed.clear()

    def _run_kernel(self, wrapper: ev.Wrapper, code: str, order: int) -> None:
        known = self._kernels.get((wrapper.graph, wrapper.phase), {}).get(order)
        extern = _EXTERN.match(code)
        if extern is not None and extern[1]:
            self._library_result(wrapper, extern[1], extern[2], known)
        label = self._label(code, known)
        inside = code[code.index("(") :]
        for name in dict.fromkeys([*([extern[1]] if extern and extern[1] else []), *_NAME.findall(inside)]):
            storage = self._vars.get(name)
            if storage is None:
                continue
            tensor = self._live[storage]
            if not tensor.written:
                tensor.written, tensor.born = True, self._step
                tensor.kernel = label
                old = tensor.replaces
                if old is not None and old.kind == "activation" and not old.backward_users:
                    old.backward_users.append(label)
                    old.used = self._step
                elif old is not None and known is not None and _is_read_in_place(known[0].source, inside, name):
                    old.users.append(label)
                    old.used = self._step
                if known is not None:
                    tensor.call, tensor.node = known[1], tensor.node or self._node_of(wrapper, known[1], tensor)
            else:
                tensor.users.append(label)
                if wrapper.phase == "backward":
                    tensor.backward_users.append(label)
            tensor.used = self._step
        self._note(wrapper.phase)
        self._history.append(self._bytes)
        self._kernel_names.append(label)
        self._step += 1
        self._forward_steps += wrapper.phase == "forward"

    @staticmethod
    def _label(code: str, known: tuple[ev.Kernel, ev.KernelCall] | None) -> str:
        if known is not None:
            ops = ", ".join(known[1].ops[:MOST_REASON_OPS]) + (", …" if len(known[1].ops) > MOST_REASON_OPS else "")
            return f"{known[0].name} ({ops})" if ops else known[0].name
        return code.partition("(")[0].rpartition("= ")[2]

    def _library_result(
        self, wrapper: ev.Wrapper, name: str, function: str, known: tuple[ev.Kernel, ev.KernelCall] | None
    ) -> None:
        """Add the result of a library call that allocates it: its size is that of its node."""
        nodes = self._nodes_of(wrapper.graph, "post_grad", wrapper.phase)
        own = [nodes[node] for node in known[1].nodes if node in nodes] if known is not None else []
        # A call also has the nodes of the views that it reads.
        called = function.removeprefix("torch.ops.").removeprefix("extern_kernels.")
        same = (node for node in own if called in (node.target, node.packet, node.packet.removeprefix("aten.")))
        node = next(same, own[0] if own else None)
        size = self._node_bytes(node, wrapper.graph)
        items = [other for other in nodes.values() if node and node.name in other.inputs and "getitem" in other.target]
        if size is None and not items:
            self._unknown.append(name)
        self._add(name, _Tensor(name, size or 0, "temporary", node=node, graph=wrapper.graph))
        for index, item in self._numbered(items):
            part = self._node_bytes(item, wrapper.graph)
            if part is not None:
                tensor = _Tensor(f"{name}[{index}]", part, "temporary", node=item, graph=wrapper.graph, written=True)
                tensor.born = tensor.used = self._step
                tensor.call = known[1] if known is not None else None
                self._add(tensor.name, tensor)

    @staticmethod
    def _numbered(items: Iterable[ev.FxNode]) -> Iterator[tuple[int, ev.FxNode]]:
        for item in items:
            numbers = re.findall(r"\d+$", item.args.strip())
            if numbers:
                yield int(numbers[0]), item

    def _item(self, name: str, other: str, index: str) -> None:
        """Name one result of a library call that returns several."""
        part = self._vars.get(f"{other}[{index}]")
        self._hold(name, self._vars[other] if part is None else part)
        if part is not None:
            self._live[part].name = name

    def _node_of(self, wrapper: ev.Wrapper, call: ev.KernelCall, tensor: _Tensor) -> ev.FxNode | None:
        """Return the node of a kernel that a buffer holds: the last one of its size."""
        nodes = self._nodes_of(wrapper.graph, "post_grad", wrapper.phase)
        own = [nodes[name] for name in call.nodes if name in nodes]
        fitting = [node for node in own if self._node_bytes(node, wrapper.graph) == tensor.bytes]
        candidates = fitting or own
        return _root(nodes, candidates[-1]) if candidates else None

    # ---- results

    def _return(self, wrapper: ev.Wrapper, code: str) -> None:
        aten = self._aten(wrapper.graph, wrapper.phase)
        output = next((node for node in aten.nodes if node.op == "output"), None) if aten is not None else None
        nodes = {node.name: node for node in aten.nodes} if aten is not None else {}
        backward = self._graphs.get((wrapper.graph, "backward", "backward"))
        saved = {node.name for node in backward.nodes if node.op == "placeholder"} if backward is not None else set()
        returned = [part for part in _arguments(code[len("return (") :].rstrip()[:-1]) if part != "None"]
        if output is not None and len(output.inputs) != len(returned):
            returned = list(dict.fromkeys(returned))  # a result that is also saved for the backward is there twice
        names = output.inputs if output is not None and len(output.inputs) == len(returned) else ()
        for index, argument in enumerate(returned):
            match = re.match(r"^reinterpret_tensor\((\w+),", argument)
            storage = self._vars.get(match[1] if match else argument)
            if storage is None:
                continue
            tensor = self._live[storage]
            name = names[index] if index < len(names) else ""
            if tensor.counts and tensor.kind in ("temporary", "output"):
                tensor.node = _root(nodes, nodes[name]) if name in nodes else tensor.node
                kept = wrapper.phase == "forward" and name in saved
                tensor.kind = "activation" if kept else "gradient" if wrapper.phase == "backward" else "output"
            if wrapper.phase == "forward" and name in saved:
                self._saved[wrapper.graph, name] = storage
                self._holders[storage].add(f"saved {wrapper.graph} {name}")
                if tensor.kind == "output":
                    self._holders[storage].add("caller")
            else:
                self._holders[storage].add("caller")
                tensor.outlives = tensor.counts

    def peak(self) -> MemoryPeak | None:
        """Return the peak with what lives at it."""
        if not self._history:
            return None
        step, phase = self._at
        live = [tensor for tensor in self._at_peak.values() if tensor.bytes]
        alive_before = [tensor for tensor in live if not tensor.counts]
        allocated = [tensor for tensor in live if tensor.counts]
        known = {id(tensor) for tensor in alive_before}
        alive_before += [t for t in self._known_before.values() if id(t) not in known and t.bytes]
        allocated.sort(key=lambda tensor: -tensor.bytes)
        alive_before.sort(key=lambda tensor: -tensor.bytes)
        kernel = self._kernel_names[step] if step < len(self._kernel_names) else ""
        return MemoryPeak(
            bytes=self._best, step=step, steps=self._step, forward_steps=self._forward_steps, phase=phase,
            kernel=kernel,
            tensors=tuple(self._described(tensor) for tensor in (*allocated, *alive_before)),
            history=tuple(self._history), unknown=tuple(self._unknown),
        )  # fmt: skip

    def _described(self, tensor: _Tensor) -> LiveTensor:
        node = tensor.node
        location = node.location if node is not None else None
        if location is None and tensor.call is not None and len(tensor.call.source_lines) == 1:
            location = tensor.call.source_lines[0]
        origin = next((self._dynamo.get((tensor.graph, name)) for name in node.origins), None) if node else None
        module = (node.module if node is not None else None) or (origin.module if origin is not None else None)
        if tensor.kind == "parameter":
            module = tensor.name.rpartition(".")[0] or None
        computed = node is not None and node.op != "placeholder"
        label = f"{tensor.name} ({node.name})" if computed and node is not None and tensor.counts else tensor.name
        return LiveTensor(
            name=label, bytes=tensor.bytes, kind=tensor.kind,
            op=self._op(node, tensor.graph) if computed and node else "",
            location=location, module=module, born=tensor.born if tensor.counts else None,
            dies=None if tensor.outlives or not tensor.counts else tensor.used, reason=self._reason(tensor),
        )  # fmt: skip

    def _op(self, node: ev.FxNode, graph: str) -> str:
        """Return the op that computes a value: of a part of a tuple that of the tuple."""
        if "getitem" in node.target and node.inputs:
            for phase in PHASES:
                if (source := self._nodes_of(graph, "post_grad", phase).get(node.inputs[0])) is not None:
                    return source.packet
        return node.packet

    def _reason(self, tensor: _Tensor) -> str:
        if tensor.kind == "parameter":
            return "a parameter or buffer: it exists before the call"
        if tensor.kind == "input":
            return "an input: it exists before the call"
        if tensor.kind == "workspace":
            return f"scratch memory of {tensor.users[-1] if tensor.users else tensor.kernel or 'a kernel'}"
        if tensor.kind == "output":
            if self._is_resumed_after(tensor.graph):
                return f"an output of graph {tensor.graph}: it counts to the end, since later graphs may read it"
            return "an output of the call: it counts to the end, since the caller may hold it"
        if tensor.kind == "gradient":
            if tensor.name.startswith("tangents_"):
                return "the gradient of an output"
            return "a gradient that the backward returns"
        if tensor.kind == "activation":
            reader = tensor.backward_users[0] if tensor.backward_users else "the backward"
            return f"{self._why_saved(tensor)}; saved for {reader} of the backward"
        if tensor.users and tensor.used is not None and tensor.used < self._at[0]:
            new = tensor.reused_by
            if new is None or new.born is None:
                return f"{KEPT}: the code frees it later"
            return f"{KEPT}: {new.kernel} reuses its memory, as kernel {new.born + 1}"
        last = tensor.users[-1] if tensor.users else tensor.kernel
        return f"{last} still reads it" if tensor.users else f"{last or 'a kernel'} writes it"

    def _is_resumed_after(self, graph: str) -> bool:
        number = frame_number(graph)
        return number.isdecimal() and str(int(number) + 1) in self._resumed

    def _why_saved(self, tensor: _Tensor) -> str:
        """Return why torch's partitioner keeps a value instead of computing it again in the backward."""
        node, graph = tensor.node, tensor.graph
        op = node.packet.removeprefix("aten.") if node is not None else ""
        if op in COMPUTE_INTENSIVE:
            return f"never computed again, since {op} is compute-intensive"
        if op in RANDOM or op.startswith(("inductor_random", "inductor_seed")):
            return f"never computed again, since {op} is random"
        if library := next((user for user in tensor.backward_users if user.startswith(LIBRARY_CALLS)), None):
            return f"not computed again, since {library.partition(' ')[0]} needs it in memory in any case"
        aten = self._aten(graph, "forward")
        nodes = {other.name: other for other in aten.nodes} if aten is not None else {}
        sizes = [self._node_bytes(nodes.get(name), graph) or 0 for name in (node.inputs if node is not None else ())]
        own = self._node_bytes(node, graph)
        if own and sum(sizes) > 4 * own:
            return "over four times smaller than what it is computed from"
        return "min-cut: to compute it again would need more bytes than it has"

    # ---- sizes

    def _numbers(self, text: str, graph: str) -> list[int] | None:
        values = [evaluate(part, self._hints.get(graph, {})) for part in _arguments(text.strip()[1:-1])]
        return None if any(value is None for value in values) else [value for value in values if value is not None]

    def _node_bytes(self, node: ev.FxNode | None, graph: str) -> int | None:
        if node is None or node.shape is None or node.itemsize is None:
            return None
        sizes = [evaluate(size, self._hints.get(graph, {})) for size in node.shape]
        if any(size is None for size in sizes):
            return None
        return node.itemsize * prod(size for size in sizes if size is not None)


KEPT = "read for the last time before"
"""Begins the reason of a tensor whose memory Inductor keeps, to use it again."""

PHASES: tuple[ev.GraphPhase, ...] = ("forward", "backward")

COMPUTE_INTENSIVE = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "_scaled_mm", "linear",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", "_flash_attention_forward",
    "_efficient_attention_forward", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_cudnn_attention", "upsample_bilinear2d",
})  # fmt: skip
"""Ops that torch's partitioner does not compute again in the backward (`compute_intensive_ops`)."""

LIBRARY_CALLS = ("extern_kernels.", "aten.", "torch.ops.")
"""Beginnings of calls that no kernel fuses with, so that the partitioner does not compute their inputs again."""

RANDOM = frozenset({"native_dropout", "rand_like", "randn_like", "rand", "randn", "bernoulli", "philox_rand"})
"""Ops that it does not compute again since they draw random numbers (`random_ops`)."""


def _root(nodes: Mapping[str, ev.FxNode], node: ev.FxNode) -> ev.FxNode:
    """Return the node whose values a view shows."""
    while node.is_view and node.inputs and (source := nodes.get(node.inputs[0])) is not None:
        if source.op == "placeholder":
            break
        node = source
    return node


_POINTER = re.compile(r"\b(?:in_out_ptr|in_ptr|out_ptr)\d+\b")


def _is_read_in_place(source: str, call: str, name: str) -> bool:
    """Return whether a kernel reads what is in the memory of a buffer before it writes there, by its parameter's name.

    `call` is the part of the call in parentheses. The kernel's parameters are the first pointers that its source names.
    """
    parameters = tuple(dict.fromkeys(_POINTER.findall(source)))
    arguments = _arguments(call.partition("(")[2].rpartition(")")[0])
    return any(
        parameter.startswith("in_out_ptr") and re.search(rf"\b{name}\b", argument) is not None
        for parameter, argument in zip(parameters, arguments, strict=False)
    )


def _arguments(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def evaluate(text: str, hints: Mapping[str, str]) -> int | None:
    """Return a size: a number, or an expression of symbols with known values; None if it is unknown."""
    if text.isdecimal():
        return int(text)
    try:
        return _value(ast.parse(text, mode="eval").body, hints)
    except (SyntaxError, ValueError, RecursionError, ZeroDivisionError, KeyError, TypeError):
        return None


def _value(node: ast.expr, hints: Mapping[str, str]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return int(hints[node.id])
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, hints), _value(node.right, hints))
    raise ValueError(ast.dump(node))
