"""Every kernel of a graph, generated or extern: its text, its calls, and what each call came from."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import lines
from tcexplore.capture.inductor.extern_calls import ExternCalls
from tcexplore.capture.inductor.kernel_calls import WrapperCalls
from tcexplore.capture.inductor.kernel_schedule import Scheduled, scheduled
from tcexplore.capture.inductor.kernel_source import kernel_source
from tcexplore.capture.inductor.lowering_graph import compilation, root
from tcexplore.capture.inductor.postgrad_nodes import PostGrad
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import KernelCall, KernelLine

_TRACKER = "set_kernel_post_grad_provenance_tracing"
"""Called once for each kernel call that goes into the wrapper; these modules hold it under their own name."""

_TRACKED_IN = ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")


class KernelCapture:
    """Follows Inductor while it writes wrappers; the kernels of one are emitted when its text is whole."""

    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._wrappers: WeakKeyDictionary[Any, WrapperCalls] = WeakKeyDictionary()
        self._post_grad: WeakKeyDictionary[Any, PostGrad] = WeakKeyDictionary()
        self._extern = ExternCalls()
        self._statements = lines.install(hooks)

    def install(self) -> None:
        """Watch the definitions, the calls, and the moment at which the wrapper is handed to be loaded."""
        watch = self._hooks.watch
        watch(
            "kernel source", "torch._inductor.codegen.wrapper:PythonWrapperCodegen.define_kernel", before=self._defined
        )
        for module in _TRACKED_IN:
            watch("kernel calls", f"{module}:{_TRACKER}", before=self._called)
        self._extern.install(self._hooks)
        watch("kernels", "torch._inductor.graph:GraphLowering._compile_to_module_lines", before=self._wrapper_written)

    def _calls(self) -> WrapperCalls:
        from torch._inductor.virtualized import V

        return self._wrappers.setdefault(root(V.graph), WrapperCalls())

    def _nodes(self) -> PostGrad:
        from torch._inductor.virtualized import V

        if V.graph not in self._post_grad:
            self._post_grad[V.graph] = PostGrad(V.graph.graph, self._project)
        return self._post_grad[V.graph]

    def _defined(self, _wrapper: Any, kernel_name: str, kernel_body: str, *_: Any, **__: Any) -> None:
        self._calls().defined[kernel_name] = kernel_source(kernel_body)

    def _called(self, node_schedule: Any, kernel_name: str, is_extern: bool = False) -> None:
        from torch._inductor.virtualized import V

        calls = self._calls()
        if is_extern:
            known = V.graph.scheduler.name_to_node.get(node_schedule.get_operation_name())
            facts = scheduled([] if known is None else [known], V.graph.scheduler)
        else:
            facts = scheduled(node_schedule, V.graph.scheduler)
        nodes = self._nodes()
        source = calls.defined.get(kernel_name)
        if source is not None:
            statements = self._statements.take(kernel_name, source)
            marked = tuple(
                KernelLine(n=n, nodes=nodes.sort(ops), source=nodes.source(ops)) for n, ops in statements.items()
            )
            call = self._call(calls.next_order(), facts, nodes.ops(facts.origins), marked)
            calls.call(kernel_name, facts, call)
        else:
            call = self._call(calls.next_order(), facts, nodes.targets(facts.origins), ())
            self._extern.begin(calls.extern(kernel_name, facts, call))

    def _call(self, order: int, facts: Scheduled, ops: tuple[str, ...], lines: tuple[KernelLine, ...]) -> KernelCall:
        nodes = self._nodes()
        return KernelCall(
            order=order,
            ops=ops,
            nodes=nodes.sort(facts.origins),
            source_lines=nodes.source(facts.origins),
            lines=lines,
            scheduler_nodes=facts.names,
            buffers=facts.buffers,
            bytes_read=facts.bytes_read,
            bytes_written=facts.bytes_written,
            bytes_saved=facts.bytes_saved,
            flops=facts.flops,
            dtypes=nodes.dtypes(facts.origins),
        )

    def _wrapper_written(self, lowering: Any, *_: Any, **__: Any) -> None:
        calls = self._wrappers.pop(root(lowering), None)
        if calls is not None:
            for kernel in calls.kernels(*compilation(lowering)):
                self._hooks.emit(kernel)


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `Kernel` for each kernel of each wrapper, before any compiler has seen its code."""
    KernelCapture(hooks, project).install()
