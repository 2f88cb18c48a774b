"""Judgement of the kernels of a program, one by one in the order of their calls, and the first op that is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import aten_node
from tcexplore.capture.tensor_descriptions import dtype_text
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FirstOp, Kernel, KernelCall, KernelJudged, KernelVerdict, NumericsJudged, OperandValue
from tcexplore.numerics.comparison import Comparison, compare, same
from tcexplore.numerics.exposed_kernels import compile_kernel, exposable, kernel_graph, run_compiled
from tcexplore.numerics.kernel_replay import GraphValues, Replay
from tcexplore.numerics.lowered_graphs import LoweredGraph
from tcexplore.numerics.replayed_values import LOW, Value, op_name
from tcexplore.numerics.wrapper_values import ValueRecorder, WrapperCall

BUDGET_S = 60.0
"""No further kernel is judged after this many seconds."""

VERDICTS: tuple[KernelVerdict, ...] = ("bitwise equal", "not judged", "differs, not wrong", "wrong")
"""From best to worst."""


@dataclass(slots=True)
class CalledKernel:
    """One call of a kernel, with what its judgement needs."""

    kernel: Kernel
    call: KernelCall
    values: GraphValues
    outputs: list[Any]
    """Post-grad nodes whose values it writes."""
    repeats: bool | None = None
    replay: Replay | None = None
    compared: dict[Any, Comparison] | None = None

    @property
    def worst(self) -> Any:
        """The node of the worst output."""
        assert self.compared
        return max(self.compared, key=lambda node: self.compared[node].severity)  # type: ignore[index]


class Judge:
    """Judges the kernels of recorded calls."""

    def __init__(self, hooks: Hooks, user_files: UserFiles, kernels: Sequence[Kernel]) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._kernels = kernels
        self._began = time.perf_counter()

    def judge(self, graphs: Sequence[LoweredGraph], recorder: ValueRecorder) -> list[CalledKernel]:
        """Judge every kernel; emit a `KernelJudged` for each, and the first op that is wrong."""
        judged: list[CalledKernel] = []
        verdicts: list[KernelVerdict] = []
        reason = ""
        for graph in sorted(graphs, key=lambda each: each.phase == "backward"):
            call = recorder.calls.get(graph.wrapper.__file__)
            if call is None:
                reason = f"graph {graph.graph}, {graph.phase}, was not called again"
                continue
            for called in self._called(graph, call):
                event = self._judged(called)
                if time.perf_counter() - self._began > BUDGET_S:
                    reason = f"not all kernels were judged within {BUDGET_S:.0f} s"
                self._hooks.emit(event)
                verdicts.append(event.verdict)
                judged.append(called)
        worst: KernelVerdict = max(verdicts, key=VERDICTS.index, default="not judged")
        if reason == "" and not judged:
            reason = "Inductor generated no kernel"
        first = self.first(judged)
        if first is not None:
            self._hooks.emit(first)
        self._hooks.emit(
            NumericsJudged(
                verdict=worst, calls=len(recorder.calls), seconds=time.perf_counter() - self._began, reason=reason
            )
        )
        return judged

    def _called(self, graph: LoweredGraph, call: WrapperCall) -> Iterator[CalledKernel]:
        values = GraphValues(graph, call)
        calls = [
            (kernel, each)
            for kernel in self._kernels
            if (kernel.graph, kernel.phase) == (graph.graph, graph.phase)
            for each in kernel.calls
        ]
        for kernel, each in sorted(calls, key=lambda pair: pair[1].order):
            held = [graph.nodes[name].node for name in each.buffers if name in graph.nodes]
            outputs = list(dict.fromkeys(node for node in held if node in values.real))
            repeats = call.repeats(each.buffers)
            yield CalledKernel(kernel, each, values, outputs, repeats)

    def _judged(self, called: CalledKernel) -> KernelJudged:
        verdict, reason = self._compare(called)
        event = KernelJudged(
            graph=called.kernel.graph, phase=called.kernel.phase, kernel=called.kernel.name, order=called.call.order,
            verdict=verdict, reason=reason, ops=len(called.call.nodes), repeats=called.repeats,
        )  # fmt: skip
        if not called.compared:
            return event
        node, every = called.worst, called.compared.values()
        one = called.compared[node]
        return replace(
            event, output=node.name, dtype=dtype_text(called.values.real[node].dtype),
            elements=sum(each.elements for each in every), differing=sum(each.differing for each in every),
            ulps=one.ulps,
            error_ulps=one.error_ulps, eager_error_ulps=one.eager_error_ulps, error=one.error,
            eager_error=one.eager_error, bound_share=_finite(one.share), eager_share=one.eager_share,
        )  # fmt: skip

    def _compare(self, called: CalledKernel) -> tuple[KernelVerdict, str]:
        if not called.outputs:
            return "not judged", "its buffers hold parts of a later kernel's ops, which are judged there"
        if time.perf_counter() - self._began > BUDGET_S:
            return "not judged", "the time for the judgement was over"
        called.compared = {}
        replay = called.values.replay(called.outputs, only_eager=True)
        reals = called.values.real
        if not replay.failed and all(same(reals[node], replay.values[node].eager) for node in called.outputs):
            called.compared = {node: Comparison(False, reals[node].numel(), 0) for node in called.outputs}
            return "bitwise equal", ""
        replay = called.replay = called.values.replay(called.outputs)
        for node in called.outputs:
            if node not in replay.failed:
                called.compared[node] = compare(called.values.real[node], replay.values[node])
        reason = "; ".join(f"{node.name}: {text}" for node, text in replay.failed.items() if node in called.outputs)
        if not called.compared:
            return "not judged", reason
        if any(one.wrong for one in called.compared.values()):
            return "wrong", reason
        return (
            "differs, not wrong" if any(one.differing for one in called.compared.values()) else "bitwise equal"
        ), reason

    # ---- the first op

    def first(self, judged: Sequence[CalledKernel]) -> FirstOp | None:
        """Return the first op that is wrong; None if none is."""
        wrong = next((each for each in judged if each.compared and any(c.wrong for c in each.compared.values())), None)
        return None if wrong is None else self._first_wrong(wrong)

    def _first_wrong(self, called: CalledKernel) -> FirstOp:
        try:
            exposed = self._exposed(called)
        except Exception as error:  # noqa: BLE001  a kernel that does not compile alone costs the op, not the verdict
            self._hooks.report_missing("the op of a wrong kernel", "torch._inductor:compile_fx_inner", str(error))
            exposed = None
        if exposed is not None:
            return self._first_op(called, *exposed, exposed=True)
        assert called.replay is not None
        assert called.compared
        node = called.worst
        real = called.values.real[node]
        return self._first_op(called, node, called.replay.values[node], real, called.compared[node], exposed=False)

    def _exposed(self, called: CalledKernel) -> tuple[Any, Value, Any, Comparison] | None:
        """Compile the kernel with every intermediate as an output; return the first one that is outside its bound."""
        assert called.replay
        wrong = [node for node, one in (called.compared or {}).items() if one.wrong]
        replay = called.values.replay(wrong)
        nodes = exposable(replay)
        graph, inputs = kernel_graph(replay, nodes, wide=True), replay.given
        with self._hooks.paused():
            results = run_compiled(compile_kernel(graph, inputs, {}), inputs)
        for node, real in zip(nodes, results, strict=True):
            value = replay.values[node]
            if isinstance(value.eager, torch.Tensor) and value.eager.dtype in LOW:
                value = Value(value.single, value.exact, value.single, value.bound)
            one = compare(real, value)
            if one.wrong:
                return node, value, real, one
        return None

    def _first_op(
        self, called: CalledKernel, node: Any, value: Value, real: torch.Tensor, one: Comparison, *, exposed: bool
    ) -> FirstOp:
        record = aten_node(node, self._user_files)
        statement = self._statement(called, node.name)
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(one.worst), real.shape)) if real.dim() else ()
        bound = value.bound[index] if isinstance(value.bound, torch.Tensor) else 0.0
        replay = called.replay
        return FirstOp(
            kind="not finite" if one.not_finite else "wrong",
            graph=called.kernel.graph, phase=called.kernel.phase, kernel=called.kernel.name, order=called.call.order,
            op=op_name(node.target), node=node.name, statement=statement[1], statement_line=statement[0],
            location=record.location, module=record.module or "", dtype=record.dtype or "", index=index,
            inputs=tuple(_operands(node, replay, index)) if replay else (),
            eager=_text(value.eager[index]), float64=_text(value.exact[index]), compiled=_text(real[index]),
            bound=_text(bound), exposed=exposed,
        )  # fmt: skip

    def _statement(self, called: CalledKernel, node: str) -> tuple[int | None, str]:
        """Return the line of the kernel that computes a node: the last one that is only of this node."""
        source = called.kernel.source.split("\n")
        lines = [
            line for line in called.call.lines or called.kernel.lines if node in line.nodes and line.n <= len(source)
        ]
        return _computing(lines, source)


def _computing(lines: Sequence[Any], source: Sequence[str]) -> tuple[int | None, str]:
    """Return the statement that computes a value among the lines of its op, in the first of its loops."""
    if not lines:
        return None, ""
    texts = [(line.n, source[line.n - 1].strip()) for line in lines]
    # Statements of other loops follow with a gap; the first loop is the vectorized one.
    first: list[tuple[int, str]] = []
    for n, text in texts:
        if first and n > first[-1][0] + 40:
            break
        first.append((n, text))
    values = [
        (n, text)
        for n, text in first
        if not _STORE.search(text) and not _LOAD.search(text) and not _CONSTANT.search(text)
    ]
    n, text = (values or first)[-1]
    return n, text


_STORE = re.compile(r"\.store\(|tl\.store\(|^(in_)?out_ptr\d+\[|static_cast<int64_t>\(x\d+\)\] =")
_LOAD = re.compile(r"loadu\(|tl\.load\(| = (in_out|in|out)_ptr\d+\[")
_CONSTANT = re.compile(r"= static_cast<\w+>\([-\d.e+]+\);|Vectorized<\w+>\(tmp\d+\);|tl\.full\(")


def _operands(node: Any, replay: Replay, index: tuple[int, ...]) -> Iterator[OperandValue]:
    for each in node.all_input_nodes:
        value = replay.values.get(each)
        if value is None or not isinstance(value.eager, torch.Tensor):
            continue
        try:
            shape = node.meta["val"].shape
            yield OperandValue(each.name, _text(value.eager.expand(tuple(map(int, shape)))[index]))
        except (RuntimeError, KeyError, TypeError, IndexError):
            yield OperandValue(each.name, f"a tensor of shape {tuple(value.eager.shape)}")


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _finite(value: float | None) -> float | None:
    return None if value is None else min(value, 1e300)
