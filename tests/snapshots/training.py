"""A small module in training: joint, forward and backward graphs, their partition, kernels, fusions and passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.events import (
    AtenGraph,
    Config,
    EntryFound,
    Finished,
    FusionDecision,
    FxNode,
    GraphCaptured,
    Hunk,
    Kernel,
    KernelCall,
    Location,
    Partitioned,
    PassRun,
    SavedTensor,
    ScheduleMade,
    SchedulerNode,
    Wrapper,
)
from tcexplore.events.inductor_events import GraphPhase
from tcexplore.session import Snapshot
from tests.snapshots.marked import unmark
from tests.snapshots.mlp_graphs import tensor
from tests.snapshots.mlp_source import FOLDER

FILE = f"{FOLDER}/samples/gate.py"
SOURCE = """import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        h = x * self.weight
        return torch.sigmoid(h) + 1
"""
SHAPE = ("64", "512")
TIMES, GATE = Location(FILE, 7, "forward"), Location(FILE, 8, "forward")


def dynamo() -> GraphCaptured:
    """Return the Dynamo graph."""
    nodes = (
        tensor("l_self_weight", "placeholder", "self.weight", ("512",), None),
        tensor("l_x_", "placeholder", "x", SHAPE, None),
        tensor("h", "call_function", "mul", SHAPE, TIMES, args="l_x_, l_self_weight", inputs=("l_x_", "l_self_weight")),
        tensor("sigmoid", "call_function", "torch.sigmoid", SHAPE, GATE, args="h", inputs=("h",)),
        tensor("add", "call_function", "add", SHAPE, GATE, args="sigmoid, 1", inputs=("sigmoid",)),
        FxNode(name="output", op="output", target="output", args="(add,)", inputs=("add",)),
    )
    return GraphCaptured(graph="0/0", ops=3, nodes=nodes, code="", frame=Location(FILE, 6, "forward"))


def _aten(name: str, target: str, args: str, where: Location, *origins: str, shape: tuple[str, ...] = SHAPE) -> FxNode:
    inputs = tuple(word for word in args.split(", ") if word.isidentifier())
    return tensor(name, "call_function", target, shape, where, args=args, inputs=inputs, origins=origins)


_INPUTS = tuple(tensor(f"primals_{n}", "placeholder", f"primals_{n}", SHAPE, None) for n in (1, 2))
_TANGENT = (tensor("tangents_1", "placeholder", "tangents_1", SHAPE, None),)
_MUL = _aten("mul", "aten.mul.Tensor", "primals_2, primals_1", TIMES, "h")
_SIGMOID = _aten("sigmoid", "aten.sigmoid.default", "mul", GATE, "sigmoid")
_ADD = _aten("add", "aten.add.Tensor", "sigmoid, 1", GATE, "add")
_BACK = (
    _aten("sub", "aten.sub.Tensor", "1, sigmoid", GATE, "sigmoid"),
    _aten("mul_1", "aten.mul.Tensor", "sigmoid, sub", GATE, "sigmoid"),
    _aten("mul_2", "aten.mul.Tensor", "tangents_1, mul_1", GATE, "sigmoid"),
    _aten("mul_3", "aten.mul.Tensor", "mul_2, primals_2", TIMES, "h"),
    _aten("sum_1", "aten.sum.dim_IntList", "mul_3, [0]", TIMES, "h", shape=("512",)),
    _aten("detach", "aten.detach.default", "sum_1", TIMES, shape=("512",)),
)


def _output(names: str) -> FxNode:
    return FxNode(name="output", op="output", target="output", args=f"({names},)", inputs=tuple(names.split(", ")))


def aten() -> tuple[AtenGraph, ...]:
    """Return the graphs below Dynamo in order of arrival; a pass removes `detach`."""
    forward = (*_INPUTS, _MUL, _SIGMOID, _ADD, _output("add, mul"))
    backward = (_INPUTS[1], replace(_MUL, op="placeholder", target="mul"), *_TANGENT, _SIGMOID, *_BACK[:-1])
    joint = (*_INPUTS, *_TANGENT, _MUL, _SIGMOID, _ADD, *_BACK, _output("add, sum_1"))
    return (
        AtenGraph(graph="0/0", stage="joint", phase="forward", nodes=joint),
        AtenGraph(graph="0/0", stage="forward", phase="forward", nodes=forward),
        AtenGraph(graph="0/0", stage="backward", phase="backward", nodes=backward),
        AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=forward),
        AtenGraph(graph="0/0", stage="post_grad", phase="backward", nodes=(*backward, _output("sum_1"))),
    )


PARTITION = Partitioned(
    graph="0/0", recomputed=("sigmoid",),
    saved=(
        SavedTensor(name="primals_2", bytes=131_072, input=True),
        SavedTensor(name="mul", bytes=131_072, location=TIMES),
    ),
)  # fmt: skip

PASSES = (
    PassRun(graph="0/0", stage="pre_grad", phase="forward", name="group_batch_fusion_passes", nodes_before=6,
            nodes_after=6),
    PassRun(
        graph="0/0", stage="joint", phase="forward", name="remove_noop_ops", nodes_before=13, nodes_after=12,
        hunks=(Hunk(at=11, removed=("detach = aten.detach.default(sum_1)", "output((add, detach))"),
                    added=("output((add, sum_1))",), above=("sum_1 = aten.sum.dim_IntList(mul_3, [0])",)),),
    ),
    PassRun(graph="0/0", stage="joint", phase="forward", name="fuse_seed_creation_pass", nodes_before=12,
            nodes_after=12),
    PassRun(graph="0/0", stage="post_grad", phase="backward", name="reorder_for_locality", nodes_before=8,
            nodes_after=8),
)  # fmt: skip

_FORWARD = """
extern "C"  void  kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0)
{
        auto tmp0 = in_ptr0[x0];  //@ mul
        auto tmp1 = in_ptr1[x0];  //@ mul
        auto tmp2 = tmp0 * tmp1;  //@ mul
        auto tmp3 = 1 / (1 + std::exp(-tmp2));  //@ sigmoid
        auto tmp5 = tmp3 + tmp4;  //@ add
        out_ptr0[x0] = tmp5;  //@ add
}
""".lstrip("\n")
_BACKWARD = """
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{
        auto tmp1 = 1 / (1 + std::exp(-tmp0));  //@ sigmoid
        auto tmp3 = tmp2 - tmp1;  //@ sub
        auto tmp4 = tmp1 * tmp3;  //@ mul_1
        out_ptr0[x0] = tmp4;  //@ mul_1
}
""".lstrip("\n")
_SUM = """
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{
        tmp_acc0 = tmp_acc0 + tmp0;  //@ sum_1
}
""".lstrip("\n")


def kernels() -> tuple[Kernel, ...]:
    """Return one forward and two backward kernels, the first of which has a fused pair and a separate loop nest."""
    return (
        _kernel("cpp_fused_add_mul_sigmoid_0", "forward", _FORWARD, ("op0",), 264_192, 131_072, 0),
        _kernel("cpp_fused_mul_sigmoid_1", "backward", _BACKWARD, ("op0", "op1", "op2"), 262_144, 131_072, 262_144,
                fusion="pointwise", ops=("aten.sigmoid_backward", "aten.mul")),
        _kernel("cpp_fused_sum_2", "backward", _SUM, ("op3",), 131_072, 2_048, 0, ops=("aten.sum",)),
    )  # fmt: skip


def _kernel(
    name: str, phase: GraphPhase, marked: str, nodes: tuple[str, ...], read: int, written: int, saved: int, **more: Any
) -> Kernel:
    places = {node.name: node.location for node in (_MUL, _SIGMOID, _ADD, *_BACK) if node.location}
    source, lines = unmark(marked, places)
    names = tuple(dict.fromkeys(name for line in lines for name in line.nodes))
    where = tuple(dict.fromkeys(places[name] for name in names))
    buffers = tuple(name.replace("op", "buf") for name in nodes)
    common: dict[str, Any] = {
        "nodes": names, "source_lines": where, "lines": lines, "scheduler_nodes": nodes, "buffers": buffers,
        "bytes_read": read, "bytes_written": written, "bytes_saved": saved,
    }  # fmt: skip
    return Kernel(graph="0/0", phase=phase, name=name, language="cpp", source=source, kind="SchedulerNode",
                  calls=(KernelCall(order=0, **common),), **common, **more)  # fmt: skip


def _decision(a: str, b: str, reason: str = "", saved: int | None = None) -> FusionDecision:
    return FusionDecision(
        graph="0/0", phase="backward", a=a, b=b, fused=not reason, reason=reason, a_nodes=tuple(a.split("_")),
        b_nodes=tuple(b.split("_")), kind="" if reason else "producer and consumer", bytes_saved=saved,
    )  # fmt: skip


FUSION = (
    _decision("op0", "op1", saved=262_144),
    _decision("op0_op1", "op3", "numel/rnumel mismatch (reduce) (32768, 512), (1, 64)"),
    _decision("op2", "op3", "no shared data"),
)


SCHEDULE = ScheduleMade(
    graph="0/0", phase="backward", pairwise_attempts=64,
    nodes=(
        SchedulerNode(name="op0", buffers=("buf0", "mul")),
        SchedulerNode(name="op1", buffers=("buf0", "buf1", "tangents_1"), dependencies=("op0",)),
        SchedulerNode(name="op2", buffers=("buf2", "primals_2")),
        SchedulerNode(name="op3", buffers=("buf1", "buf3"), dependencies=("op1",)),
    ),
)  # fmt: skip


def run(number: int = 3) -> Snapshot:
    """Return the complete run."""
    wrappers = (
        Wrapper(graph="0/0", phase="forward", source="def call(args): ...\n"),
        Wrapper(graph="0/0", phase="backward", source="def call(args): ...\n", reused=(("buf0", "buf3"),)),
    )
    entry = EntryFound(
        name="model", kind="module", rule="module-level `model` and `inputs`", calls=(("f32[64, 512]",),)
    )
    grown = Snapshot(run=number, file=FILE, source=SOURCE, config=Config(train=True))
    for event in (entry, dynamo(), *aten(), PARTITION, *PASSES, *kernels(), *FUSION, SCHEDULE, *wrappers, Finished()):
        grown = grown.apply(replace(event, run=number))
    return grown
