"""The kernels of a graph, generated or extern: text, calls, and the origin of each call."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tcexplore.capture.fx.fx_node import subgraph_paths
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import lines
from tcexplore.capture.inductor.kernel_calls import ExternCallText, WrapperCalls
from tcexplore.capture.inductor.kernel_schedule import CallSchedule, call_schedule
from tcexplore.capture.inductor.lowering_graph import compilation, root
from tcexplore.capture.inductor.node_origins import PostGradNodes
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import KernelCall, KernelLine
from tcexplore.torch_text.kernel_source import definition_lines, kernel_source

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
        self._extern_text = ExternCallText()
        self._line_ops = lines.install(hooks)

    def install(self) -> None:
        """Watch kernel definitions, kernel calls, and the moment at which the wrapper is complete."""
        watch = self._hooks.watch
        watch(
            "kernel source", "torch._inductor.codegen.wrapper:PythonWrapperCodegen.define_kernel", before=self._defined
        )
        for module in _TRACKER_MODULES:
            watch("kernel calls", f"{module}:{_CALL_TRACKER}", before=self._called)
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

    def _defined(self, _wrapper: Any, kernel_name: str, kernel_body: str, *_: Any, **__: Any) -> None:
        self._calls().defined[kernel_name] = kernel_source(kernel_body)

    def _called(self, node_schedule: Any, kernel_name: str, is_extern: bool = False) -> None:
        from torch._inductor.virtualized import V

        calls = self._calls()
        if is_extern:
            node = V.graph.scheduler.name_to_node.get(node_schedule.get_operation_name())
            schedule = call_schedule([] if node is None else [node], V.graph.scheduler)
        else:
            schedule = call_schedule(node_schedule, V.graph.scheduler)
        nodes = self._nodes()
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
            self._extern_text.begin(calls.add_extern(kernel_name, schedule, call, user_op))

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
