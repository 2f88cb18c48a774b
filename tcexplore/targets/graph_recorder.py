"""Recording of the graphs that Dynamo captures, and their lowering for targets after the run's own compilation."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config as inductor_config
from torch._guards import CompileContext, compile_context
from torch._inductor.exc import InductorError
from torch._inductor.graph import GraphLowering

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import BACKEND_CALL
from tcexplore.capture.user_ops import triton_kernels
from tcexplore.events import Event, KernelScript
from tcexplore.targets.device_emulation import patch_attribute
from tcexplore.targets.device_table import Target
from tcexplore.targets.lowering import lower_graph
from tcexplore.targets.retarget import copy_graph
from tcexplore.targets.target_tag import suppress_events


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """A Dynamo graph before the backend changed it, with its compile context."""

    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    compile: CompileContext | None
    grad: bool = True
    """Whether gradients were enabled."""


class GraphRecorder:
    """The graphs compiled between `install` and `close`; `emit` is the hooks' emit function, with target tags.

    Lowering happens after the run's own compile, whose time is measured, and does not retrace the program.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.emit = emit
        self.graphs: list[RecordedGraph] = []
        self._compiling: list[RecordedGraph] = []
        self._open = True

    def install(self, hooks: Hooks) -> bool:
        """Record each graph that the backend compiles; return False if this torch lacks the function to hook."""
        return hooks.watch(
            "code for a target", BACKEND_CALL, before=self._start, after=self._finish, failed=self._discard
        )

    def close(self) -> None:
        """Stop recording: later graphs are not the user's."""
        self._open = False

    def lower(self, target: Target) -> None:
        """Generate the code of every graph for `target`."""
        self.close()
        for recorded in self.graphs:
            context = compile_context(recorded.compile) if recorded.compile else contextlib.nullcontext()
            with context, torch.set_grad_enabled(recorded.grad):
                lower_graph(recorded.graph, recorded.inputs, target, self.emit)

    def _start(self, _: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> None:
        context = CompileContext.try_get()
        self._compiling.append(RecordedGraph(copy_graph(gm), tuple(example_inputs), context, torch.is_grad_enabled()))

    def _finish(self, *_: Any, **__: Any) -> None:
        recorded = self._compiling.pop()
        if self._open:
            self.graphs.append(recorded)

    def _discard(self, *_: Any, **__: Any) -> None:
        self._compiling.pop()


def runnable_kernels(recorded: RecordedGraph, target: Target) -> Iterator[KernelScript]:
    """Yield each Triton kernel of a graph and its backward as a benchmark file, in torch's own runnable form.

    The files are for a machine with the target. This lowering emits no other events.
    """
    codes: list[str] = []
    with (
        suppress_events(),
        inductor_config.patch(benchmark_kernel=True),
        patch_attribute(GraphLowering, "save_output_code", staticmethod(codes.append)),
        contextlib.redirect_stderr(io.StringIO()),
        torch.set_grad_enabled(recorded.grad),
    ):
        lower_graph(recorded.graph, recorded.inputs, target, lambda _: None)
    compile_id = recorded.compile.compile_id if recorded.compile else None
    graph = "" if compile_id is None else str(compile_id)
    for name, source in dict.fromkeys(kernel for code in codes for kernel in _triton_sources(code)):
        yield KernelScript(graph=graph, kernel=name, target=target.key, source=source)


def _triton_sources(module: str) -> Iterator[tuple[str, str]]:
    """Yield (name, source) of each `async_compile.triton(name, source, ...)` in a wrapper module."""
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "triton":
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if len(texts) >= 2:
                yield texts[0], texts[1].strip() + "\n"


_INDUCTOR = "torch:_TorchCompileInductorWrapper.__call__"


class UncompiledGraphs:
    """The graphs that Inductor could not compile for this machine while a target is set."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.reasons: list[str] = []
        """One sentence for each graph."""

    def install(self) -> None:
        """Run a graph uncompiled if it calls a Triton kernel and there is no GPU, or if Inductor fails."""
        self._hooks.wrap("code for a target", _INDUCTOR, self._compile_or_run)

    def _compile_or_run(self, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_graph)
        def call(backend: Any, gm: Any, inputs: Any, **options: Any) -> Any:
            kernels = [] if torch.cuda.is_available() else triton_kernels(gm)
            if kernels:
                self._report(f"it calls the Triton kernel {kernels[0]}, which needs a GPU")
                return gm.forward
            runnable = copy_graph(gm)
            try:
                return compile_graph(backend, gm, inputs, **options)
            except InductorError as error:
                inner = getattr(error, "inner_exception", None) or error
                self._report(f"{type(inner).__name__}: {str(inner).strip().partition(chr(10))[0]}")
                return runnable.forward

        return call

    def _report(self, reason: str) -> None:
        graph = current_compile_id() or ""
        self.reasons.append(f"graph {graph} runs uncompiled on this machine: {reason}")
        self._hooks.report_missing(f"code of graph {graph} for this machine", _INDUCTOR, reason)
