"""Runs of the size of a large language model: 10 000 nodes, 50 000 lines of code, 2 000 guards."""

from __future__ import annotations

import random
from dataclasses import replace

from tcexplore.events import (
    AtenGraph,
    Config,
    FusionDecision,
    FxNode,
    GraphCaptured,
    Guard,
    GuardsInstalled,
    Kernel,
    KernelLine,
    Location,
)
from tcexplore.session import Snapshot
from tcexplore.session.code import Code
from tcexplore.targets.target_names import NATIVE
from tests.snapshots.codes import with_code
from tests.snapshots.mlp_source import FOLDER

FILE = f"{FOLDER}/samples/large.py"


def source(lines: int = 400) -> str:
    """Return the text of a file with this number of lines."""
    body = "\n".join(f"        x = self.blocks[{n}](x)  # block {n}" for n in range(lines - 4))
    return f"from torch import nn\n\n\nclass Large(nn.Module):\n    def forward(self, x):\n{body}\n"


def graph(nodes: int = 10_000, reach: int = 200) -> GraphCaptured:
    """Return chains with residual connections; each node reads one or two of the `reach` nodes before it."""
    rng = random.Random(1)
    made: list[FxNode] = []
    for n in range(nodes):
        readable = range(max(0, n - reach), n)
        inputs = {n - 1} if n else set()
        if n % 7 == 0 and readable:
            inputs.add(rng.choice(readable))
        where = Location(FILE, 6 + n % 390, "forward")
        names = tuple(made[i].name for i in sorted(inputs))
        made.append(FxNode(
            name=f"add_{n}", op="call_function", target="add", args=", ".join(names), inputs=names,
            shape=("8", "1024"), stride=("1024", "1"), dtype="f32", device="cpu", location=where,
            stack=(where,), module=f"self.blocks.{n // 25}",
        ))  # fmt: skip
    return GraphCaptured(graph="0/0", ops=nodes, nodes=tuple(made), code="pass\n" * nodes)


def kernel(lines: int = 50_000) -> Kernel:
    """Return a kernel with this number of statements, each with its node."""
    text = "\n".join(f"    auto tmp{n} = tmp{n - 1} * static_cast<float>({n}.5);" for n in range(1, lines + 1))
    where = Location(FILE, 6, "forward")
    provenance = tuple(KernelLine(n=n, nodes=(f"mul_{n % 50}",), source=(where,)) for n in range(1, lines + 1))
    return Kernel(graph="0/0", phase="forward", name="cpp_fused_mul_0", language="cpp", source=text + "\n",
                  ops=("aten.mul",), nodes=tuple(f"mul_{n}" for n in range(50)), lines=provenance)  # fmt: skip


def guards(count: int = 2_000) -> GuardsInstalled:
    """Return this number of guards; one in twenty is not structural."""
    where = Location(FILE, 6, "forward")
    return GuardsInstalled(graph="0/0", latency_us=900.0, guards=tuple(
        Guard(kind="TENSOR_MATCH" if n % 20 == 0 else "ID_MATCH", source=f"L['xs'][{n}]", structural=n % 20 != 0,
              code=(f"check_tensor(L['xs'][{n}])",), summary="f32[8, 1024] cpu", location=where)
        for n in range(count)
    ))  # fmt: skip


def snapshot(nodes: int = 10_000, lines: int = 50_000, guarded: int = 2_000) -> Snapshot:
    """Return a finished run of this size."""
    return Snapshot(
        run=1,
        file=FILE,
        source=source(),
        config=Config(),
        status="ok",
        graphs=(graph(nodes),),
        guards=(guards(guarded),),
        codes=(Code(target=NATIVE, kernels=(kernel(lines),)),),
    )


def lowered(nodes: int = 10_000, kernels: int = 300) -> Snapshot:
    """Return a run with three ATen graphs, this number of kernels with four scheduler nodes each, and decisions."""
    run = snapshot(nodes, lines=10, guarded=20)
    aten = tuple(replace(node, origins=(node.name,), target="aten.add.Tensor") for node in run.graphs[0].nodes)
    stages = (AtenGraph(graph="0/0", stage=s, phase="forward", nodes=aten) for s in ("joint", "forward", "post_grad"))
    each = nodes // kernels
    made = (_part(number, aten[number * each : (number + 1) * each]) for number in range(kernels))
    decisions = (_decision(number) for number in range(4 * kernels - 1))
    return with_code(run, aten_graphs=tuple(stages), kernels=tuple(made), fusion=tuple(decisions) * 3)


def layered(nodes: int = 10_000, layer: int = 25) -> Snapshot:
    """Return a run of equal layers with this number of nodes each, and a kernel for every five nodes."""
    run = lowered(nodes, nodes // 5)
    made = [FxNode(name="x", op="placeholder", target="x", shape=("8", "1024"), dtype="f32")]
    for n in range(nodes):
        reads = [f"add_{n - 1}" if n else "x"]
        reads += [f"add_{n - layer + 1}"] if n % layer == layer - 1 else []
        where = Location(FILE, 6 + n % layer, "forward")
        made.append(FxNode(
            name=f"add_{n}", op="call_function", target="add", args=", ".join(reads), inputs=tuple(reads),
            shape=("8", "1024"), stride=("1024", "1"), dtype="f32", device="cpu", location=where,
            stack=(where,), module=f"self.blocks.{n // layer}",
        ))  # fmt: skip
    return replace(run, graphs=(replace(run.graphs[0], nodes=tuple(made)),))


def _part(number: int, nodes: tuple[FxNode, ...]) -> Kernel:
    places = {node.location: None for node in nodes if node.location}
    return Kernel(
        graph="0/0", phase="forward", name=f"cpp_fused_add_{number}", language="cpp", ops=("aten.add",),
        source="".join(f"auto tmp{n} = tmp{n - 1};\n" for n in range(len(nodes))), nodes=tuple(n.name for n in nodes),
        source_lines=tuple(places), lines=tuple(KernelLine(n=n, nodes=(node.name,)) for n, node in enumerate(nodes, 1)),
        scheduler_nodes=tuple(f"op{4 * number + n}" for n in range(4)), bytes_read=1024, bytes_written=1024,
        bytes_saved=512, fusion="pointwise",
    )  # fmt: skip


def _decision(number: int) -> FusionDecision:
    """Return a fusion of two nodes of one kernel, or a refusal between two kernels, which share no data."""
    a, b = f"op{number}", f"op{number + 1}"
    reason = "" if number % 4 != 3 else "no shared data"
    return FusionDecision(graph="0/0", phase="forward", a=a, b=b, fused=not reason, reason=reason, a_nodes=(a,),
                          b_nodes=(b,))  # fmt: skip
