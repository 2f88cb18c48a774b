"""A run on a CPU with code for a GPU: a Triton kernel with two of its stages, and a library call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot

FILE = "/home/me/net.py"
SOURCE = """\
import torch

def model(x, w):
    if x.is_cuda:
        return x
    return torch.relu(x @ w)
"""
LINE = ev.Location(FILE, 6, "model")

TRITON = """\
@triton.jit
def triton_poi_fused_relu_0(in_out_ptr0, XBLOCK: tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_out_ptr0 + x0)
    tmp1 = tl.maximum(tmp0, 0)
    tl.store(in_out_ptr0 + x0, tmp1)
"""
PTX = ".visible .entry k()\n{\n\tld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n\tmax.f32 %f1, %f2, 0f00000000;\n}"
SASS = "k:\n  /*0000*/ LDG.E.128 R4, desc[UR6][R2.64] ;\n  /*0010*/ FMNMX R4, RZ, R4, !PT ;\n  /*0020*/ EXIT ;"

RESOURCES = ev.KernelResources(
    registers=200, spills=64, stack=64, shared_static=0, shared_dynamic=4096, num_warps=8, num_stages=1, threads=256,
    occupancy=0.125, blocks=1, limited_by="registers",
    mix=(("other", 30), ("load 128-bit", 2), ("floating point", 1)),
    warnings=("registers spill to memory: 64 bytes a thread",),
)  # fmt: skip


def run(number: int = 1, target: str = "l4") -> Snapshot:
    """Return the complete run."""
    snapshot = start_snapshot(ev.Job(run=number, file=FILE, source=SOURCE, config=ev.Config(target=target)))
    for event in _events(target):
        snapshot = snapshot.apply(_of(event, number))
    return snapshot


def _of(event: ev.Event, number: int) -> ev.Event:
    return replace(event, run=number)


def _events(target: str) -> tuple[ev.Event, ...]:
    of: dict[str, Any] = {"graph": "0/0", "phase": "forward", "target": target}
    name = "triton_poi_fused_relu_0"
    nodes = (
        ev.FxNode(name="mm", op="call_function", target="operator.matmul", args="x, w", location=LINE),
        ev.FxNode(name="relu", op="call_function", target="torch.relu", args="mm", location=LINE),
    )
    aten = (
        ev.FxNode(name="mm", op="call_function", target="aten.mm.default", origins=("mm",), location=LINE),
        ev.FxNode(name="relu", op="call_function", target="aten.relu.default", origins=("relu",), location=LINE),
    )
    lines = tuple(ev.KernelLine(n=n, nodes=("relu",), source=(LINE,)) for n in (4, 5, 6))
    place: dict[str, Any] = {"source_lines": (LINE,)}
    return (
        ev.GraphCaptured(graph="0/0", frame=LINE, nodes=nodes, ops=2, code=""),
        ev.Kernel(name="cpp_fused_relu_0", graph="0/0", phase="forward", language="cpp", source="void kernel() {}"),
        ev.DeviceQueried(graph="0/0", attribute="is_cuda", location=ev.Location(FILE, 4, "model")),
        ev.AtenGraph(stage="post_grad", nodes=aten, **of),
        ev.Kernel(name="extern_kernels.mm", language="extern", source="extern_kernels.mm(x, w, out=buf0)",
                  ops=("aten.mm",), nodes=("mm",), bytes_read=1 << 20, bytes_written=1 << 18, flops=1 << 28,
                  **place, **of),
        ev.Kernel(name=name, language="triton", source=TRITON, ops=("aten.relu",), nodes=("relu",), lines=lines,
                  bytes_read=1 << 18, bytes_written=1 << 18, **place, **of),
        ev.RooflinePoint(kernel="extern_kernels.mm", bytes=1310720, flops=1 << 28, intensity=204.8, bound="compute",
                         implied_us=8.86, memory_peak=300e9, peak=30.3e12, precision="fp32", **of),
        ev.RooflinePoint(kernel=name, bytes=524288, flops=None, intensity=None, bound="memory", implied_us=1.75,
                         memory_peak=300e9, peak=30.3e12, precision="fp32", **of),
        ev.TargetLowered(graph="0/0", target=target, kernels=1, seconds=0.2, notes=("attention: math",)),
        ev.TargetSkipped(graph="1/0", target=target, op="aten.odd", reason="NotImplementedError: no meta kernel"),
        ev.KernelAssembled(kernel=name, config="XBLOCK=256, num_warps=8, num_stages=1", resources=RESOURCES,
                           stages=(ev.KernelStage("ptx", PTX, ((3, 4), (4, 5))),
                                   ev.KernelStage("sass", SASS, ((2, 4), (3, 5)))),
                           **of),
        ev.Finished(),
    )  # fmt: skip
