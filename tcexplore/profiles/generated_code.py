"""The generated modules of a TORCH_TRACE as the profiler sees them: calls in order, by cache key or compile id."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tcexplore import events as ev
from tcexplore.events.dynamo_events import subgraph_of

_NUMBERED = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class CodeCall:
    """One call of a kernel in a generated module."""

    kernel: ev.Kernel
    call: ev.KernelCall
    op: str
    """Name of the op that the profiler records for it."""
    subgraph: str = ""
    """The subgraph whose code makes it; empty for the graph itself."""


@dataclass(slots=True)
class Module:
    """The generated module of one graph."""

    graph: str
    phase: ev.GraphPhase
    calls: tuple[CodeCall, ...]
    by_op: dict[str, list[CodeCall]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_op = defaultdict(list)
        for call in self.calls:
            self.by_op[call.op].append(call)


def op_name(kernel: ev.Kernel) -> str:
    """Return the name of the op that the profiler records when a kernel is called.

    `extern_kernels.bias_addmm` calls `aten::addmm`, `torch.ops.mkldnn._linear.default` is `mkldnn::_linear`.
    """
    name = _NUMBERED.sub("", kernel.name)
    if kernel.generated:
        return name
    if name.startswith("torch.ops."):
        return "::".join(name.removeprefix("torch.ops.").split(".")[:2])
    if name.startswith("aten."):
        return f"aten::{name.split('.')[1]}"
    return f"aten::{_CALLED_BY_EXTERN.get(name, name.rpartition('.')[2])}"


_CALLED_BY_EXTERN = {"extern_kernels.bias_addmm": "addmm"}


def modules(kernels: Iterable[ev.Kernel]) -> list[Module]:
    """Return the generated modules of a trace in its order; the calls of each begin at 0."""
    found: list[tuple[ev.Kernel, list[CodeCall]]] = []
    current: dict[tuple[str, str], list[CodeCall]] = {}
    for kernel in kernels:
        key = (kernel.graph, kernel.phase)
        if key not in current or any(call.order == 0 for call in kernel.calls):
            current[key] = []
            found.append((kernel, current[key]))
        op = op_name(kernel)
        current[key] += [CodeCall(kernel, call, op, subgraph_of(call.nodes)) for call in kernel.calls]
    return [
        Module(kernel.graph, kernel.phase, tuple(sorted(calls, key=lambda known: known.call.order)))
        for kernel, calls in found
    ]


@dataclass(slots=True)
class GeneratedCode:
    """All generated modules of a process."""

    modules: list[Module]
    keys: Mapping[str, tuple[str, int]]
    """Compile id and number of the module in its graph, by cache key of the compiled graph."""

    @classmethod
    def of_events(cls, events: Iterable[ev.Event]) -> GeneratedCode:
        """Return the code that the events of a trace describe."""
        kernels: list[ev.Kernel] = []
        keys: dict[str, tuple[str, int]] = {}
        counts: dict[str, int] = defaultdict(int)
        for event in events:
            if isinstance(event, ev.Kernel):
                kernels.append(event)
            elif isinstance(event, ev.CompiledGraphKey):
                keys[event.key] = (event.graph, counts[event.graph])
                counts[event.graph] += 1
        return cls(modules(kernels), keys)

    def module(self, key: str, region: str, backward: bool, ops: frozenset[str]) -> tuple[Module | None, str]:
        """Return the module that ran, or the reason why it is unknown.

        `key` is the cache key in the profile, `region` the compile id around the call, empty if unknown, and `ops` are
        the names of the ops that ran in the call. Without a record of the key, the module must be the only one whose
        kernels include all generated ones that ran.
        """
        if not self.modules:
            return None, NO_TRACE
        generated = frozenset(op for op in map(code_name, ops) if _GENERATED.match(op))
        known = self.keys.get(key)
        if known is not None:
            graph, number = known
            own = [module for module in self.modules if module.graph == graph]
            if len(own) == sum(other == graph for other, _ in self.keys.values()):
                own = [own[number]]
        else:
            phase = "backward" if backward else "forward"
            own = [module for module in self.modules if module.phase == phase and region in ("", module.graph)]
        fitting = [module for module in own if generated <= module.by_op.keys()]
        if len(fitting) == 1 and (known or region or generated):
            return fitting[0], ""
        graph_name = f"the graph with the cache key {key[:12]}…" if key else "the graph"
        if not fitting:
            return None, f"the trace has no code of {graph_name}"
        return None, f"{len(fitting)} graphs of the trace fit {graph_name}"


NO_TRACE = "without the TORCH_TRACE of the job (--trace), kernels have no lines"

_GENERATED = re.compile(r"^(?:triton_|cpp_fused)")
_NUMBER_OF_GRAPH = re.compile(r"^graph_\d+_(?=cpp_fused)")


def code_name(op: str) -> str:
    """Return the name of an op in the generated code: a profiled C++ kernel begins with the number of its graph."""
    return _NUMBER_OF_GRAPH.sub("", op)
