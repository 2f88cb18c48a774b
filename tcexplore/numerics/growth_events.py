"""Events on how the errors of kernels grow, for the graphs of judged calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tcexplore.capture.hooks import Hooks
from tcexplore.events import KernelErrorGrowth, ModuleErrorGrowth, ResultError
from tcexplore.numerics.called_kernels import CalledKernel, kernels_by_graph
from tcexplore.numerics.error_growth import ErrorGrowth, NotMeasuredError
from tcexplore.numerics.graph_stages import time_limit

GROWTH_S = 6.0
"""No further kernel or module is measured after this many seconds."""

FACT = "how errors grow"


def emit_growth(hooks: Hooks, judged: Sequence[CalledKernel]) -> None:
    """Emit the errors of all results, and of what they are made, one Dynamo graph after the other."""
    in_time = time_limit(GROWTH_S)
    graphs: dict[str, list[list[CalledKernel]]] = {}
    for kernels in kernels_by_graph(judged):
        graphs.setdefault(kernels[0].kernel.graph, []).append(kernels)
    for graph, parts in graphs.items():
        try:
            _emit_graph(hooks, parts, in_time)
        except NotMeasuredError as error:
            hooks.report_missing(FACT, "tcexplore.numerics", f"graph {graph}: {error}")


def _emit_graph(hooks: Hooks, parts: Sequence[list[CalledKernel]], in_time: Callable[[], bool]) -> None:
    """Emit the errors of a graph and its backward."""
    forward: ErrorGrowth | None = None
    measured: list[tuple[ErrorGrowth, list[CalledKernel]]] = []
    for kernels in parts:
        backward = kernels[0].kernel.phase == "backward"
        growth = ErrorGrowth(kernels[0].values, in_time, forward if backward else None)
        forward = None if backward else growth
        measured.append((growth, kernels))
    for growth, _ in measured:
        _emit_results(hooks, growth)
    _emit_kernels(hooks, measured, in_time)
    for growth, _ in measured:
        _emit_modules(hooks, growth)


def _emit_results(hooks: Hooks, growth: ErrorGrowth) -> None:
    graph = growth.values.graph
    for result in growth.results():
        hooks.emit(ResultError(graph=graph.graph, phase=graph.phase, **result._asdict()))


def _emit_kernels(
    hooks: Hooks, graphs: Iterable[tuple[ErrorGrowth, list[CalledKernel]]], in_time: Callable[[], bool]
) -> None:
    """Emit what the error of each kernel becomes, the largest errors first."""
    calls = [(growth.local_error(called.outputs), growth, called) for growth, kernels in graphs for called in kernels]
    for local, growth, called in sorted(calls, key=lambda call: call[0], reverse=True):
        if not local:
            break
        if not in_time():
            hooks.report_missing(FACT, "tcexplore.numerics", f"not all kernels were measured within {GROWTH_S:.0f} s")
            break
        kernel = called.kernel
        hooks.emit(
            KernelErrorGrowth(
                graph=kernel.graph, phase=kernel.phase, kernel=kernel.name, order=called.call.order,
                **growth.share(called.outputs)._asdict(),
            )
        )  # fmt: skip


def _emit_modules(hooks: Hooks, growth: ErrorGrowth) -> None:
    graph = growth.values.graph
    for one in growth.modules():
        hooks.emit(
            ModuleErrorGrowth(
                graph=graph.graph, phase=graph.phase, module=one.path, ops=one.ops, error_in=one.before,
                error_out=one.after, passed_on=one.passed_on,
            )
        )  # fmt: skip
