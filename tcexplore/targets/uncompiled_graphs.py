"""Graphs that only the target can run: they run uncompiled on this machine, so that the target's code is generated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.exc import InductorError

from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.fx.user_ops import triton_kernels
from tcexplore.capture.hooks import Hooks
from tcexplore.targets.retarget import copy_graph

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
