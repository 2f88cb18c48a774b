"""The kernels of a graph, generated or extern: text, calls, and the origin of each call, collected for each wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tcexplore.capture.fx_nodes import subgraph_paths
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compilation, root
from tcexplore.capture.inductor.kernel_lines import mark_lines
from tcexplore.capture.inductor.kernel_schedule import CallSchedule, call_schedule
from tcexplore.capture.inductor.node_origins import PostGradNodes
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FusionKind, GraphPhase, Kernel, KernelCall, KernelLine, Location, UserOp
from tcexplore.torch_text.kernel_source import (
    KernelSource,
    commented_nodes,
    definition_lines,
    kernel_source,
    read_definitions,
)

_CALL_TRACKER = "set_kernel_post_grad_provenance_tracing"
"""torch calls this function once for each kernel call in the wrapper."""

_TRACKER_MODULES = ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")
"""Modules that import the function by name."""


class KernelCapture:
    """Observer of wrapper generation; emits the kernels of a wrapper when its text is complete."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._wrappers: WeakKeyDictionary[Any, WrapperCalls] = WeakKeyDictionary()
        self._post_grad: WeakKeyDictionary[Any, PostGradNodes] = WeakKeyDictionary()
        self._extern_text = ExternCallText(self._called)
        self._line_ops = mark_lines(hooks)
        self._mixed: CallSchedule | None = None
        """What the next call computes if it reduces rows and columns at once: torch does not report such a call."""

    def install(self) -> None:
        """Watch kernel definitions, kernel calls, and the moment at which the wrapper is complete."""
        watch = self._hooks.watch
        watch(
            "kernel source", "torch._inductor.codegen.wrapper:PythonWrapperCodegen.define_kernel", before=self._defined
        )
        for module in _TRACKER_MODULES:
            watch("kernel calls", f"{module}:{_CALL_TRACKER}", before=self._called)
        mixed = "torch._inductor.codegen.simd:SIMDScheduling.codegen_mix_order_reduction"
        watch("kernel calls", mixed, before=self._mixed_begins, after=self._mixed_ends, failed=self._mixed_ends)
        watch("kernel calls", "torch._inductor.codegen.triton:TritonKernel.call_kernel", before=self._mixed_called)
        self._extern_text.install(self._hooks)
        watch("kernels", "torch._inductor.graph:GraphLowering._compile_to_module_lines", before=self._wrapper_complete)

    def _calls(self) -> WrapperCalls:
        from torch._inductor.virtualized import V

        return self._wrappers.setdefault(root(V.graph), WrapperCalls())

    def _nodes(self) -> PostGradNodes:
        from torch._inductor.virtualized import V

        if V.graph not in self._post_grad:
            path = subgraph_paths(root(V.graph).module).get(id(V.graph.graph), "")
            self._post_grad[V.graph] = PostGradNodes(V.graph.graph, self._user_files, path)
        return self._post_grad[V.graph]

    def _defined(
        self, _wrapper: Any, kernel_name: str, kernel_body: str, metadata: str | None = None, *_: Any, **__: Any
    ) -> None:
        calls = self._calls()
        calls.defined[kernel_name] = kernel_source(kernel_body)
        nodes, names = self._nodes(), commented_nodes(metadata or "")
        calls.named[kernel_name] = KernelCall(
            order=0, ops=nodes.ops(names), nodes=nodes.names(names), source_lines=nodes.lines(names),
            dtypes=nodes.dtypes(names),
        )  # fmt: skip

    def _mixed_begins(self, _: Any, node: Any) -> None:
        from torch._inductor.virtualized import V

        self._mixed = call_schedule(node.get_nodes(), V.graph.scheduler, V.graph.graph)

    def _mixed_called(self, _: Any, name: str, *__: Any, **___: Any) -> None:
        if self._mixed is not None:
            schedule, self._mixed = self._mixed, None
            self._add_call(schedule, name)

    def _mixed_ends(self, *_: Any, **__: Any) -> None:
        """Forget what was not called: the next call is of another kernel."""
        self._mixed = None

    def _called(self, node_schedule: Any, kernel_name: str, is_extern: bool = False) -> None:
        from torch._inductor.virtualized import V

        if is_extern:
            node = V.graph.scheduler.name_to_node.get(node_schedule.get_operation_name())
            schedule = call_schedule([] if node is None else [node], V.graph.scheduler, V.graph.graph)
        else:
            schedule = call_schedule(node_schedule, V.graph.scheduler, V.graph.graph)
        self._add_call(schedule, kernel_name, is_extern=is_extern)

    def _add_call(self, schedule: CallSchedule, kernel_name: str, *, is_extern: bool = False) -> None:
        from torch._inductor.virtualized import V

        calls, nodes = self._calls(), self._nodes()
        source = calls.defined.get(kernel_name)
        if source is None and not is_extern:
            # Some backends write the definition into the header themselves, as that of Metal.
            header = V.graph.wrapper_code.header.getvalue()
            calls.defined |= {name: text for name, text, *_ in read_definitions(header) if name not in calls.defined}
            source = calls.defined.get(kernel_name)
        user_op = nodes.user_op(schedule.origins) if is_extern or schedule.fusion.startswith("template") else None
        if source is not None:
            if is_extern:
                kernel_lines = definition_lines(user_op, source.text, nodes.names(schedule.origins))
            else:
                kernel_lines = tuple(
                    KernelLine(n=n, nodes=nodes.names(ops), source=nodes.lines(ops))
                    for n, ops in self._line_ops.take(kernel_name, source).items()
                )
            call = self._call(calls.next_order(), schedule, nodes.ops(schedule.origins), kernel_lines)
            calls.add(kernel_name, schedule, call, user_op)
        else:
            call = self._call(calls.next_order(), schedule, nodes.targets(schedule.origins), ())
            name = nodes.called_name(schedule.origins, kernel_name)
            self._extern_text.begin(calls.add_extern(name, schedule, call, user_op))

    def _call(
        self, order: int, schedule: CallSchedule, ops: tuple[str, ...], kernel_lines: tuple[KernelLine, ...]
    ) -> KernelCall:
        nodes = self._nodes()
        return KernelCall(
            order=order,
            ops=ops,
            nodes=nodes.names(schedule.origins),
            source_lines=nodes.lines(schedule.origins),
            lines=kernel_lines,
            scheduler_nodes=schedule.names,
            buffers=schedule.buffers,
            bytes_read=schedule.bytes_read,
            bytes_written=schedule.bytes_written,
            bytes_saved=schedule.bytes_saved,
            flops=schedule.flops,
            dtypes=nodes.dtypes(schedule.origins),
        )

    def _wrapper_complete(self, lowering: Any, *_: Any, **__: Any) -> None:
        calls = self._wrappers.pop(root(lowering), None)
        if calls is not None:
            for kernel in calls.events(*compilation(lowering)):
                self._hooks.emit(kernel)


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit a `Kernel` for each kernel of each wrapper, before any of them is compiled."""
    KernelCapture(hooks, user_files).install()


Item = TypeVar("Item")

_OTHER_LINES = ("MemoryPlanningLine", "FreeLine", "CommentLine", "AssertSizeStrideLine")
"""Wrapper lines around a call that are not part of it: allocations, frees, comments, checks of the result."""

_OTHER_TEXT = ("#", "assert_")
"""Beginnings of such lines that torch writes as text."""


@dataclass(slots=True)
class CalledKernel:
    """A kernel and its calls so far."""

    name: str
    language: str
    kind: str
    fusion: FusionKind
    user_op: UserOp | None = None
    calls: list[KernelCall] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    """The wrapper's lines of an extern call, filled in when the wrapper is written."""


class WrapperCalls:
    """Kernel definitions and calls in the order of the wrapper."""

    def __init__(self) -> None:
        self.defined: dict[str, KernelSource] = {}
        self.named: dict[str, KernelCall] = {}
        """What the comment of a definition tells, for kernels whose calls torch does not report."""
        self._kernels: dict[str, CalledKernel] = {}
        self._order = 0

    def next_order(self) -> int:
        """Return the number of the next call."""
        self._order += 1
        return self._order - 1

    def add(self, name: str, schedule: CallSchedule, call: KernelCall, user_op: UserOp | None) -> None:
        """Add a call of a generated kernel, or of the user's Triton kernel."""
        source = self.defined.get(name)
        language = source.language if source else "extern"
        kernel = self._kernels.setdefault(name, CalledKernel(name, language, schedule.kind, schedule.fusion, user_op))
        kernel.calls.append(call)

    def add_extern(self, name: str, schedule: CallSchedule, call: KernelCall, user_op: UserOp | None) -> CalledKernel:
        """Add a call of an extern kernel, under a unique name."""
        times = sum(kernel.name.partition(":")[0] == name for kernel in self._kernels.values())
        unique = f"{name}:{times + 1}" if times else name
        return self._kernels.setdefault(unique, CalledKernel(unique, "extern", schedule.kind, "", user_op, [call]))

    def events(self, graph: str, phase: GraphPhase) -> Iterable[Kernel]:
        """Return an event per kernel, also for those that are defined and whose calls torch does not report."""
        for name, call in self.named.items():
            if name not in self._kernels and call.nodes:
                kernel = CalledKernel(name, self.defined[name].language, "", "", calls=[call])
                self._kernels[name] = replace(kernel, calls=[replace(call, order=self.next_order())])
        for kernel in self._kernels.values():
            source = self.defined.get(kernel.name)
            yield _event(kernel, graph, phase, source.text if source else "\n".join(kernel.text))


def _event(kernel: CalledKernel, graph: str, phase: GraphPhase, source: str) -> Kernel:
    calls = tuple(kernel.calls)
    return Kernel(
        graph=graph,
        phase=phase,
        name=kernel.name,
        language=kernel.language,
        source=source,
        kind=kernel.kind,
        fusion=kernel.fusion,
        calls=calls,
        ops=_joined(call.ops for call in calls),
        nodes=_joined(call.nodes for call in calls),
        source_lines=_joined(call.source_lines for call in calls),
        scheduler_nodes=_joined(call.scheduler_nodes for call in calls),
        buffers=_joined(call.buffers for call in calls),
        lines=_joined_lines(calls),
        bytes_read=_total(call.bytes_read for call in calls),
        bytes_written=_total(call.bytes_written for call in calls),
        bytes_saved=_total(call.bytes_saved for call in calls),
        flops=_total(call.flops for call in calls),
        dtypes=_joined(call.dtypes for call in calls),
        user_op=kernel.user_op,
    )


def _joined(tuples: Iterable[tuple[Item, ...]]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(item for items in tuples for item in items))


def _joined_lines(calls: tuple[KernelCall, ...]) -> tuple[KernelLine, ...]:
    """Return each line with the nodes and source lines of all calls."""
    nodes: dict[int, dict[str, None]] = {}
    source: dict[int, dict[Location, None]] = {}
    for line in (line for call in calls for line in call.lines):
        nodes.setdefault(line.n, {}).update(dict.fromkeys(line.nodes))
        source.setdefault(line.n, {}).update(dict.fromkeys(line.source))
    return tuple(KernelLine(n=n, nodes=tuple(nodes[n]), source=tuple(source[n])) for n in sorted(nodes))


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


class ExternCallText:
    """The text of extern calls, which exists only when the wrapper is written out.

    It finds the wrapper lines that belong to the call that is being generated.
    """

    def __init__(self, called: Callable[[Any, str, bool], None]) -> None:
        self._called = called
        self._kernel: CalledKernel | None = None
        self._first_line = 0

    def install(self, hooks: Hooks) -> None:
        """Watch the scheduler generate extern calls."""
        hooks.watch(
            "extern calls",
            "torch._inductor.scheduler:Scheduler.codegen_extern_call",
            before=self._generation_begins,
            after=self._generated,
        )

    def begin(self, kernel: CalledKernel) -> None:
        """Begin the generation of a call of `kernel`."""
        self._kernel = kernel

    def _generation_begins(self, *_: Any) -> None:
        from torch._inductor.virtualized import V

        self._kernel = None
        self._first_line = len(V.graph.wrapper_code.lines)

    def _generated(self, _result: Any, _scheduler: Any, node: Any, *_: Any) -> None:
        from torch._inductor.virtualized import V

        lines = V.graph.wrapper_code.lines[self._first_line :]
        name = None if self._kernel is not None else _untracked_name(getattr(node, "node", None))
        if name is not None and lines:
            self._called(node.node, name, True)
        if self._kernel is not None:
            for line in lines:
                _collect_text(line, self._kernel.text)
        self._kernel = None


def _untracked_name(operation: Any) -> str | None:
    """Return the name of a call that torch does not tell its call tracker: of most ops that change an argument."""
    name = getattr(operation, "try_get_kernel_name", lambda: None)()
    return name if isinstance(name, str) else None


def _collect_text(line: Any, text: list[str]) -> None:
    """Append a wrapper line to `text`, now or when torch writes it out."""
    if isinstance(line, str):
        if line.strip() and not line.lstrip().startswith(_OTHER_TEXT):
            text.append(line.strip())
        return
    if not hasattr(line, "codegen") or any(base.__name__ in _OTHER_LINES for base in type(line).__mro__):
        return
    write = line.codegen

    def codegen(code: Any) -> None:
        start = len(code._lines)
        write(code)
        text.extend(str(written).strip() for written in code._lines[start:] if isinstance(written, str))

    line.codegen = codegen
