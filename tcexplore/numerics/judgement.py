"""Judgement of the kernels of a program, one by one in the order of their calls, and the first op that is wrong."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import aten_node
from tcexplore.capture.tensor_descriptions import dtype_text
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    FirstOp,
    FirstOpKind,
    Kernel,
    KernelJudged,
    KernelVerdict,
    NumericsJudged,
)
from tcexplore.numerics.called_kernels import NOT_JUDGED, CalledKernel, kernels_by_graph, statement_of
from tcexplore.numerics.comparison import Comparison, compare, same
from tcexplore.numerics.exposed_kernels import exposable, exposed_values, kernel_graph
from tcexplore.numerics.graph_stages import Decomposed, GraphCheck, WrongNode, time_limit
from tcexplore.numerics.kernel_replay import GraphValues, Replay
from tcexplore.numerics.kernel_reproducer import kernel_reproducer
from tcexplore.numerics.lowered_graphs import LoweredGraph
from tcexplore.numerics.not_finite import operands_at, unraveled, value_text
from tcexplore.numerics.not_finite_ops import NotFiniteOps
from tcexplore.numerics.replayed_values import LOW, Value, op_name
from tcexplore.numerics.switches import LocalDifference, explain, switches
from tcexplore.numerics.wrapper_values import ValueRecorder, WrapperCall

BUDGET_S = 60.0
"""No further kernel is judged after this many seconds."""

GRAPHS_S = 20.0
"""Time for the check of decompositions and passes."""

EXPLAIN_S = 15.0
"""No further switch is tried after this many seconds."""

WHY = "why a kernel differs from eager"

PARTS = "its buffers hold parts of a later kernel's ops, which are judged there"
USERS_KERNEL = "the user's own kernel, which eager runs too"

VERDICTS: tuple[KernelVerdict, ...] = ("bitwise equal", "not judged", "differs, not wrong", "wrong")
"""From best to worst."""


class Judge:
    """Judges the kernels of recorded calls; what it finds is emitted as events."""

    def __init__(self, hooks: Hooks, user_files: UserFiles, kernels: Sequence[Kernel], folder: str = "") -> None:
        """`folder` is for the inputs of the kernel that a reproducer runs; empty for none."""
        self._hooks = hooks
        self._user_files = user_files
        self._kernels = kernels
        self._folder = folder
        self._began = time.perf_counter()
        self._worst: KernelVerdict = NOT_JUDGED
        self._calls, self._reason = 0, ""

    def judge(self, graphs: Sequence[LoweredGraph], recorder: ValueRecorder) -> list[CalledKernel]:
        """Judge every kernel; emit a `KernelJudged` for each."""
        judged: list[CalledKernel] = []
        reason = ""
        for graph in sorted(graphs, key=lambda each: each.phase == "backward"):
            call = recorder.calls.get(graph.wrapper.__file__)
            if call is None:
                reason = f"graph {graph.graph}, {graph.phase}, was not called again"
                continue
            for called in self._called(graph, call):
                self._hooks.emit(self._judged(called))
                judged.append(called)
        if self._seconds > BUDGET_S:
            reason = f"not all kernels were judged within {BUDGET_S:.0f} s"
        if not (reason or judged):
            reason = "Inductor generated no kernel"
        worst: KernelVerdict = max((called.verdict for called in judged), key=VERDICTS.index, default=NOT_JUDGED)
        self._calls, self._worst, self._reason = len(recorder.calls), worst, reason
        return judged

    def find_first(self, judged: Sequence[CalledKernel], decompositions: Sequence[Decomposed] = ()) -> None:
        """Emit the first op that is not finite, and the first that is wrong, or else differs from eager, and why."""
        wrong_nodes = self._first_wrong_nodes(judged, decompositions)
        verdict: KernelVerdict = "wrong" if wrong_nodes else self._worst
        self._hooks.emit(NumericsJudged(verdict=verdict, calls=self._calls, seconds=self._seconds, reason=self._reason))
        NotFiniteOps(self._hooks, self._user_files).emit(judged)
        wrong = next((called for called in judged if called.verdict == "wrong"), None)
        if wrong_nodes is not None:
            self._hooks.emit(wrong_nodes)
        elif wrong is not None:
            self._hooks.emit(self._first_wrong(wrong))
        if wrong is not None:
            self._emit_reproducer(wrong)
        if wrong is None and wrong_nodes is None:
            differing = [called for called in judged if called.verdict == "differs, not wrong"]
            self._explain(differing)
            if differing:
                self._emit_reproducer(differing[0])

    def _first_wrong_nodes(
        self, judged: Sequence[CalledKernel], decompositions: Sequence[Decomposed]
    ) -> FirstOp | None:
        """Return the first op whose decomposition, or a pass, made nodes that compute something else."""
        in_time = time_limit(GRAPHS_S)
        forwards: dict[str, GraphCheck] = {}
        graphs = kernels_by_graph(judged)
        with_backward = {called.values.graph.graph for called, *_ in graphs if called.values.graph.phase == "backward"}
        for called, *_ in graphs:
            graph = called.values.graph
            check = GraphCheck(graph, called.values, in_time, forwards.pop(graph.graph, None))
            if graph.phase == "forward":
                forwards[graph.graph] = check
            # The joint graph runs once, with the inputs of the backward if there is one.
            joint = graph.phase == "backward" or graph.graph not in with_backward
            wrong = check.wrong_decomposition(decompositions) or check.wrong_pass(joint=joint)
            if wrong is not None:
                return self._wrong_node(wrong, called, judged)
        return None

    def _wrong_node(self, wrong: WrongNode, of: CalledKernel, judged: Sequence[CalledKernel]) -> FirstOp:
        graph = of.values.graph
        name = wrong.node.name
        node = next((each for each in graph.module.graph.nodes if each.name == name), wrong.node)
        inside = (called for called in judged if called.values is of.values and name in called.call.nodes)
        called = next(inside, None) or of
        statement = statement_of(called, node)
        difference = torch.nan_to_num((wrong.right - wrong.wrong).abs(), nan=math.inf)
        index = unraveled(int(difference.argmax()), wrong.right)
        record = aten_node(node, self._user_files)
        return FirstOp(
            kind="wrong", graph=graph.graph, phase=graph.phase, kernel=called.kernel.name, order=called.call.order,
            op=wrong.op, node=name, statement=statement[1], statement_line=statement[0], location=record.location,
            module=record.module or "", dtype=record.dtype or "", index=index, eager=value_text(wrong.right[index]),
            float64=value_text(wrong.right[index]), compiled=value_text(wrong.wrong[index]), bound="0", exposed=True,
            stage=wrong.stage, culprit=wrong.culprit,
        )  # fmt: skip

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    def _called(self, graph: LoweredGraph, call: WrapperCall) -> Iterator[CalledKernel]:
        calls = [
            (kernel, each)
            for kernel in self._kernels
            if (kernel.graph, kernel.phase) == (graph.graph, graph.phase)
            for each in kernel.calls
        ]
        calls.sort(key=lambda pair: pair[1].order)
        values = GraphValues(graph, call, [each for _, each in calls])
        for kernel, each in calls:
            outputs = list(dict.fromkeys(values.held[name] for name in each.buffers if name in values.held))
            yield CalledKernel(kernel, each, values, outputs, values.repeats(each))

    def _judged(self, called: CalledKernel) -> KernelJudged:
        called.verdict, reason = self._compare(called)
        event = KernelJudged(
            graph=called.kernel.graph, phase=called.kernel.phase, kernel=called.kernel.name, order=called.call.order,
            verdict=called.verdict, reason=reason, ops=len(called.call.nodes), repeats=called.repeats,
        )  # fmt: skip
        if not called.compared:
            return event
        node, every = called.worst, called.compared.values()
        one = called.compared[node]
        return replace(
            event, output=node.name, dtype=dtype_text(called.values.real[node].dtype),
            elements=sum(each.elements for each in every), differing=sum(each.differing for each in every),
            ulps=_largest(each.ulps for each in every), error_ulps=_largest(each.error_ulps for each in every),
            eager_error_ulps=_largest(each.eager_error_ulps for each in every),
            error=_largest(each.error for each in every), eager_error=_largest(each.eager_error for each in every),
            bound_share=_finite(one.share), eager_share=one.eager_share,
        )  # fmt: skip

    def _compare(self, called: CalledKernel) -> tuple[KernelVerdict, str]:
        if not called.outputs:
            return NOT_JUDGED, USERS_KERNEL if called.kernel.user_op is not None else PARTS
        if time.perf_counter() - self._began > BUDGET_S:
            return "not judged", "the time for the judgement was over"
        called.compared = {}
        replay = called.values.replay(called.outputs, only_eager=True)
        reals, varied = called.values.real, called.values.varied
        varies = called.repeats is False and any(node in varied for node in called.outputs)
        if (
            not varies
            and not replay.failed
            and all(same(reals[node], replay.values[node].eager) for node in called.outputs)
        ):
            called.compared = {node: Comparison(False, reals[node].numel(), 0) for node in called.outputs}
            return "bitwise equal", ""
        replay = called.values.replay(called.outputs, eager=replay)
        for node in called.outputs:
            if node not in replay.failed:
                called.compared[node] = compare(reals[node], replay.values[node])
                # A race may give right values at first.
                if varies and node in varied and not called.compared[node].wrong:
                    again = compare(varied[node], replay.values[node])
                    if again.wrong:
                        called.compared[node], reals[node] = again, varied[node]
        reason = "; ".join(f"{node.name}: {text}" for node, text in replay.failed.items() if node in called.outputs)
        if not called.compared:
            return "not judged", reason
        if any(one.wrong for one in called.compared.values()):
            return "wrong", reason
        return (
            "differs, not wrong" if any(one.differing for one in called.compared.values()) else "bitwise equal"
        ), reason

    # ---- the first op

    def _first_wrong(self, called: CalledKernel) -> FirstOp:
        try:
            exposed = self._exposed(called)
        except Exception as error:  # noqa: BLE001  a kernel that does not compile alone costs the op, not the verdict
            self._hooks.report_missing("the op of a wrong kernel", "torch._inductor:compile_fx_inner", str(error))
            exposed = None
        if exposed is not None:
            return self._first_op("wrong", called, *exposed, exposed=True)
        node, replay = called.worst, called.values.replay(called.outputs)
        real, one = called.values.real[node], (called.compared or {})[node]
        return self._first_op("wrong", called, node, replay.values[node], real, one, replay, exposed=False)

    def _exposed(self, called: CalledKernel) -> tuple[Any, Value, Any, Comparison, Replay] | None:
        """Return the first intermediate of a kernel that is outside its bound."""
        wrong = [node for node, one in (called.compared or {}).items() if one.wrong]
        replay = called.values.replay(wrong)
        for node, real in exposed_values(replay).items():
            value = replay.values[node]
            if isinstance(value.eager, torch.Tensor) and value.eager.dtype in LOW:
                value = Value(value.single, value.exact, value.single, value.bound)
            one = compare(real, value)
            if one.wrong:
                return node, value, real, one, replay
        return None

    def _explain(self, differing: Sequence[CalledKernel]) -> None:
        """Emit the first op that differs from eager, and the switches that give eager's bits."""
        explained: set[tuple[Any, ...]] = set()
        began = time.perf_counter()
        for called in differing:
            ops = tuple(node.target for node in called.values.replay(called.outputs, only_eager=True).computed)
            # Equal layers have equal kernels.
            if ops in explained or (explained and time.perf_counter() - began > EXPLAIN_S):
                continue
            first = not explained
            explained.add(ops)
            try:
                self._explain_one(called, lambda: time.perf_counter() - began < EXPLAIN_S, first=first)
            except Exception as error:  # noqa: BLE001  a kernel that does not compile alone costs its explanation only
                self._hooks.report_missing(WHY, "torch._inductor:compile_fx_inner", str(error))

    def _explain_one(self, called: CalledKernel, in_time: Callable[[], bool], *, first: bool) -> None:
        outputs = [node for node, one in (called.compared or {}).items() if one.differing]
        # Float64 and bounds are shown for the first op only.
        replay = called.values.replay(outputs, only_eager=not first)
        local = LocalDifference(replay) if called.kernel.generated else None
        nodes = local.nodes if local is not None else outputs
        if first:
            low = (node for node in exposable(replay) if replay.values[node].eager.dtype in LOW)
            node = next(iter(nodes), None) or next(low, outputs[0])
            value = replay.values[node]
            real = local.values[node] if local is not None else called.values.real[node]
            one = compare(real.to(value.eager.dtype), value)
            exposed = local is not None
            self._hooks.emit(self._first_op("differs", called, node, value, real, one, replay, exposed=exposed))
        if local is not None:
            label = {"graph": called.kernel.graph, "phase": called.kernel.phase, "kernel": called.kernel.name}
            explain(self._hooks, replay, outputs, list(switches(replay, nodes)), in_time, label)

    def _emit_reproducer(self, called: CalledKernel) -> None:
        if not self._folder:
            return
        outputs = [node for node, one in (called.compared or {}).items() if one.differing]
        replay = called.values.replay(outputs, only_eager=True)
        graph = kernel_graph(replay, outputs)
        self._hooks.emit(kernel_reproducer(called.kernel.name, graph, replay.given, self._folder))

    def _first_op(
        self,
        kind: FirstOpKind,
        called: CalledKernel,
        node: Any,
        value: Value,
        real: torch.Tensor,
        one: Comparison,
        replay: Replay,
        *,
        exposed: bool,
    ) -> FirstOp:
        statement = statement_of(called, node)
        index = unraveled(one.worst, real)
        # One of several results is that of the op which has them.
        node = node.args[0] if node.target is operator.getitem else node
        record = aten_node(node, self._user_files)
        bound = value.bound[index] if isinstance(value.bound, torch.Tensor) else 0.0
        return FirstOp(
            kind=kind,
            graph=called.kernel.graph, phase=called.kernel.phase, kernel=called.kernel.name, order=called.call.order,
            op=op_name(node.target), node=node.name, statement=statement[1], statement_line=statement[0],
            location=record.location, module=record.module or "", dtype=record.dtype or "", index=index,
            inputs=tuple(operands_at(node, {each: one.eager for each, one in replay.values.items()}, index)),
            eager=value_text(value.eager[index]), float64=value_text(value.exact[index]),
            compiled=value_text(real[index]), bound=value_text(bound), exposed=exposed,
        )  # fmt: skip


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _finite(value: float | None) -> float | None:
    return None if value is None else min(value, 1e300)
