"""The judge names the first op, why a kernel differs, and writes a reproducer; no kernel here is compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from tcexplore import events as ev
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.numerics import exposed_kernels, switches
from tcexplore.numerics.called_kernels import CalledKernel
from tcexplore.numerics.comparison import Comparison
from tcexplore.numerics.judgement import Judge
from tcexplore.numerics.lowered_graphs import HeldNode, LoweredGraph
from tcexplore.numerics.wrapper_values import WrapperCall

aten = torch.ops.aten
Op = Callable[..., Any]


class Generated(Interpreter):
    """Runs a graph with other code for some ops, as a compiled kernel would."""

    def __init__(self, graph: GraphModule, ops: dict[Any, Op]) -> None:
        super().__init__(graph)
        self._ops = ops

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._ops.get(target, target)(*args, **kwargs)


def judged(
    program: Op, inputs: Sequence[torch.Tensor], ops: dict[Any, Op], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> list[ev.Event]:
    """Return the events of a judgement of a program that is one kernel, in which `ops` have other code."""
    made = make_fx(program)(*inputs)
    output = next(node for node in made.graph.nodes if node.op == "output").args[0]
    nodes = [node.name for node in made.graph.nodes if node.op == "call_function"]
    source = "\n".join(f"auto {name} = f({name});" for name in nodes)
    lines = tuple(ev.KernelLine(n=n + 1, nodes=(name,)) for n, name in enumerate(nodes))
    call = ev.KernelCall(order=0, nodes=tuple(nodes), buffers=("buf0",), lines=lines)
    kernel = ev.Kernel(graph="0/0", phase="forward", name="cpp_fused_0", language="cpp", source=source, calls=(call,))
    graph = LoweredGraph(
        graph="0/0", phase="forward", module=made, wrapper=SimpleNamespace(__file__="wrapper.py"),
        nodes={"buf0": HeldNode(output, None)},
    )  # fmt: skip
    replaced: set[Any] = set()

    def compile_kernel(kernel_graph: GraphModule, _: Any, __: Any) -> Op:
        wrong = {op: code for op, code in ops.items() if op not in replaced}
        return lambda values: Generated(kernel_graph, wrong).run(*values)

    class EagerKernels:
        def __init__(self, names: Sequence[Any]) -> None:
            replaced.clear()
            replaced.update(names)

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            replaced.clear()

    for module in (exposed_kernels, switches):
        monkeypatch.setattr(module, "compile_kernel", compile_kernel)
    monkeypatch.setattr(switches, "eager_kernels", EagerKernels)
    events: list[ev.Event] = []
    result = Generated(made, ops).run(*inputs)
    recorder = SimpleNamespace(calls={"wrapper.py": WrapperCall(list(inputs), {"buf0": [result]})})
    judge = Judge(Hooks(events.append), UserFiles(__file__), [kernel], str(folder))
    judge.find_first(judge.judge([graph], recorder))  # type: ignore[arg-type]
    missing = [event for event in events if isinstance(event, ev.FactMissing)]
    assert not missing
    return events


def only(events: Sequence[ev.Event], kind: type) -> Any:
    (event,) = [event for event in events if isinstance(event, kind)]
    return event


def program(x: torch.Tensor) -> torch.Tensor:
    return (torch.exp(x * 0.5) + 1).sum(-1)


X = torch.randn(32, 256, generator=torch.Generator().manual_seed(0))


def test_the_first_wrong_op_is_named_with_its_statement_and_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    events = judged(program, [X], {aten.exp.default: lambda x: torch.exp(x) * 1.001}, monkeypatch, tmp_path)
    assert only(events, ev.NumericsJudged).verdict == "wrong"
    first = only(events, ev.FirstOp)
    assert (first.kind, first.op, first.statement, first.statement_line) == (
        "wrong",
        "aten.exp",
        "auto exp = f(exp);",
        2,
    )
    values = {each.name: float(each.value) for each in first.inputs}
    assert float(first.compiled) == pytest.approx(1.001 * float(first.float64))
    assert float(first.float64) == pytest.approx(torch.tensor(values["mul"], dtype=torch.float64).exp().item())


def test_another_order_of_summation_is_not_wrong_and_is_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def plain_sum(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.cumsum(-1)[:, -1]

    events = judged(program, [X], {aten.sum.dim_IntList: plain_sum}, monkeypatch, tmp_path)
    assert only(events, ev.NumericsJudged).verdict == "differs, not wrong"
    first, tried = only(events, ev.FirstOp), only(events, ev.SwitchTried)
    assert (first.kind, first.op) == ("differs", "aten.sum")
    assert (tried.name, tried.ops, tried.equal) == ("eager's order of summation: sum", ("aten.sum.dim_IntList",), True)


def test_rounding_of_intermediates_is_tried_for_small_dtypes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def fused(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * 0.3)

    def unrounded(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x.float() * factor

    low = X.to(torch.bfloat16)

    def rounded(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).to(torch.bfloat16)

    ops: dict[Any, Op] = {aten.mul.Tensor: unrounded, aten.tanh.default: rounded}
    events = judged(fused, [low], ops, monkeypatch, tmp_path)
    assert only(events, ev.NumericsJudged).verdict == "differs, not wrong"
    tried = [event for event in events if isinstance(event, ev.SwitchTried)]
    assert tried[0].settings == ("torch._inductor.config.emulate_precision_casts=True",)


def test_the_op_that_makes_a_value_that_is_not_a_number_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    events = judged(lambda x: torch.log(x * 2) + 1, [X], {}, monkeypatch, tmp_path)
    assert only(events, ev.NumericsJudged).verdict == "bitwise equal"
    first = only(events, ev.FirstOp)
    assert (first.kind, first.side, first.op) == ("not finite", "both", "aten.log")
    assert (first.eager, first.float64, first.compiled) == ("nan", "nan", "nan")
    assert float(first.inputs[0].value) < 0


def test_a_value_that_is_not_finite_in_the_compiled_program_alone_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def overflowing(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) * 1e38 * 1e38

    events = judged(lambda x: torch.exp(x) + 1, [X], {aten.exp.default: overflowing}, monkeypatch, tmp_path)
    first = next(event for event in events if isinstance(event, ev.FirstOp) and event.kind == "not finite")
    assert (first.side, first.op, first.compiled) == ("compiled", "aten.exp", "inf")
    assert float(first.eager) == pytest.approx(float(first.float64))


def test_a_value_that_overflows_in_eager_alone_is_named_with_that_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def wide(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x.float() * factor

    def rounded(x: torch.Tensor, factor: float) -> torch.Tensor:
        return (x / factor).to(torch.float16)

    low = X.to(torch.float16)
    ops: dict[Any, Op] = {aten.mul.Tensor: wide, aten.div.Tensor: rounded}
    events = judged(lambda x: x * 1e5 / 1e5, [low], ops, monkeypatch, tmp_path)
    first = next(event for event in events if isinstance(event, ev.FirstOp) and event.kind == "not finite")
    assert (first.side, first.op) == ("eager", "aten.mul")
    assert first.eager in ("inf", "-inf")
    assert float(first.compiled) == pytest.approx(float(first.float64), rel=1e-3)


def test_the_reproducer_has_the_inputs_and_is_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    events = judged(program, [X], {aten.exp.default: lambda x: torch.exp(x) * 1.001}, monkeypatch, tmp_path)
    written = only(events, ev.KernelReproducer)
    assert torch.equal(torch.load(written.inputs)[0], X)
    uncompiled = written.source.replace("torch.compile(kernel, fullgraph=True)", "(kernel)")
    (tmp_path / "repro.py").write_text(uncompiled)
    done = subprocess.run([sys.executable, tmp_path / "repro.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "output 0: 0 of 32 elements differ from eager, at most by 0\n", done.stderr


def test_the_difference_is_the_largest_of_all_outputs(monkeypatch: pytest.MonkeyPatch):
    made = make_fx(lambda x: (x + 1, x * 2))(X)
    close, far = (node for node in made.graph.nodes if node.op == "call_function")
    compared = {
        close: Comparison(False, 4, 1, share=0.9, ulps=0.0, error_ulps=0.4),
        far: Comparison(False, 4, 1, share=0.5, ulps=7.0, error_ulps=0.2),
    }
    kernel = ev.Kernel(graph="0/0", phase="forward", name="cpp_fused_0", language="cpp", source="")
    values = SimpleNamespace(real={close: X, far: X})
    called = CalledKernel(kernel, ev.KernelCall(order=0), values, [close, far], compared=compared)  # type: ignore[arg-type]
    monkeypatch.setattr(Judge, "_compare", lambda *_: ("differs, not wrong", ""))
    event = Judge(Hooks(lambda _: None), UserFiles(__file__), [kernel])._judged(called)
    assert (event.output, event.bound_share, event.ulps, event.error_ulps) == (close.name, 0.9, 7.0, 0.4)
