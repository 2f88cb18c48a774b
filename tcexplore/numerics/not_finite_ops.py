"""The first op whose value is not finite, in eager and in the compiled program."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import aten_node
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FirstOp, Side
from tcexplore.numerics.called_kernels import CalledKernel, kernels_by_graph, statement_of
from tcexplore.numerics.exposed_kernels import exposed_values
from tcexplore.numerics.graph_runs import NodeRunner, output_nodes, run_graph
from tcexplore.numerics.graph_stages import time_limit
from tcexplore.numerics.kernel_replay import Replay
from tcexplore.numerics.not_finite import Origin, first_origin, is_finite, operands_at, spoiled_nodes, value_text
from tcexplore.numerics.replayed_values import op_name, run_op

EAGER_S = 20.0
"""Time for the run of each graph in eager."""


class NotFiniteOps:
    """Finds the first op that is not finite among judged kernels."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files

    def emit(self, judged: Sequence[CalledKernel]) -> None:
        """Emit a `FirstOp` for eager and one for the compiled program, or one for both, of the first such graph."""
        for kernels in kernels_by_graph(judged):
            if firsts := list(self._first_not_finite(kernels)):
                for first in firsts:
                    self._hooks.emit(first)
                return

    def _first_not_finite(self, kernels: Sequence[CalledKernel]) -> Iterator[FirstOp]:
        """Yield the first op of a graph whose value is not finite in eager, and in the compiled program."""
        values = kernels[0].values
        nodes = values.graph.module.graph.nodes
        in_time = time_limit(EAGER_S)
        named = run_graph(values.graph.module, values, None, in_time)
        eager = {node: named[node.name] for node in nodes if node.name in named}
        named = run_graph(values.graph.module, values, None, in_time, stored=True)
        stored = {node: named[node.name] for node in nodes if node.name in named}
        spoiled = spoiled_nodes(output_nodes(values.graph.module), eager.get)
        of_eager = first_origin((node for node in nodes if node in spoiled), eager.get)
        compiled = self._first_compiled(kernels, stored)
        both = compiled is not None and of_eager is not None and compiled[0].node is of_eager.node
        if compiled is not None and not both:
            origin, known = compiled
            yield self._not_finite("compiled", origin, kernels, known, known.get(origin.node))
        if of_eager is not None:
            known = compiled[1] if compiled is not None and both else self._known(of_eager.node, kernels, stored)
            yield self._not_finite("both" if both else "eager", of_eager, kernels, eager, known.get(of_eager.node))

    def _first_compiled(
        self, kernels: Sequence[CalledKernel], stored: dict[Any, Any]
    ) -> tuple[Origin, dict[Any, Any]] | None:
        """Return where the compiled program first has a value that is not finite, and its values there."""
        module = kernels[0].values.graph.module
        spoiled = spoiled_nodes(output_nodes(module), stored.get)
        inputs = [node for node in module.graph.nodes if node.op == "placeholder" and node in spoiled]
        if origin := first_origin(inputs, stored.get):
            return origin, stored
        for called in kernels:
            bad = [node for node in called.outputs if node in spoiled and not is_finite(stored[node])]
            if not bad:
                continue
            replay = called.values.replay(bad, only_eager=True)
            known = {**stored, **self._intermediates(called, replay), **{node: stored[node] for node in bad}}
            if origin := first_origin(replay.computed, known.get):
                return origin, known
        return None

    def _intermediates(self, called: CalledKernel, replay: Replay) -> dict[Any, Any]:
        """Return the values inside a kernel as generated code has them; empty if it cannot be compiled with them."""
        if not called.kernel.generated:
            return {}
        try:
            return exposed_values(replay)
        except Exception as error:  # noqa: BLE001  a kernel that does not compile alone costs its intermediates only
            self._hooks.report_missing("the op of a kernel", "torch._inductor:compile_fx_inner", str(error))
            return {}

    def _known(self, node: Any, kernels: Sequence[CalledKernel], stored: dict[Any, Any]) -> dict[Any, Any]:
        """Return the values of the compiled program at a node: those inside its kernel if it does not store it."""
        if node in kernels[0].values.real:
            return stored
        called = next((called for called in kernels if node.name in called.call.nodes and called.outputs), None)
        return (
            {} if called is None else self._intermediates(called, called.values.replay(called.outputs, only_eager=True))
        )

    def _not_finite(
        self,
        side: Side,
        origin: Origin,
        kernels: Sequence[CalledKernel],
        values: Mapping[Any, Any],
        compiled: Any,
    ) -> FirstOp:
        node, index = origin
        inside = (called for called in kernels if node.name in called.call.nodes)
        called = next(inside, kernels[0])
        record = aten_node(node, self._user_files)
        given = [values.get(each) for each in node.all_input_nodes]
        exact = NodeRunner(called.values.graph.module, called.values, torch.float64)
        wide = {each.name: exact.given(value) for each, value in zip(node.all_input_nodes, given, strict=True)}
        float64 = exact.given(values.get(node)) if node.op == "placeholder" else exact.value(node, wide)
        statement = statement_of(called, node) if node.op != "placeholder" else (None, "")
        one = values.get(node) if side != "compiled" else _known_eager(node, values)
        return FirstOp(
            kind="not finite", side=side, graph=called.kernel.graph, phase=called.kernel.phase,
            kernel=called.kernel.name, order=called.call.order,
            op="input" if node.op == "placeholder" else op_name(node.target), node=node.name,
            statement=statement[1], statement_line=statement[0], location=record.location, module=record.module or "",
            dtype=record.dtype or "", index=index, inputs=tuple(operands_at(node, values, index)),
            eager=_text_at(one, index), float64=_text_at(float64, index), compiled=_text_at(compiled, index),
        )  # fmt: skip


def _known_eager(node: Any, values: Mapping[Any, Any]) -> Any:
    """Return what eager computes from the values that the compiled program has; None if an input is not known."""
    if node.op == "placeholder" or any(each not in values for each in node.all_input_nodes):
        return values.get(node)
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    return args[0][args[1]] if node.target is operator.getitem else run_op(node.target, args, kwargs)


def _text_at(value: Any, index: tuple[int, ...]) -> str:
    """Return an element of a tensor as text, empty if it is not known."""
    return value_text(value[index]) if isinstance(value, torch.Tensor) else ""
