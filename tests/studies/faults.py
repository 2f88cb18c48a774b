"""Model files that each break one compiler stage in their own process."""

from __future__ import annotations

PROGRAM = """
def model(x):
    return x.sin().sum(-1).softmax(0)


inputs = (torch.randn(8, 16),)
"""

IN_A_GRAPH = """
import torch


def swapped(module, old, new):
    for node in module.graph.nodes:
        node.target = new if node.target == old else node.target
    module.recompile()
"""

DYNAMO = (
    IN_A_GRAPH
    + """
from torch._dynamo.output_graph import OutputGraph

original = OutputGraph.call_user_compiler


def wrong(self, module, *rest):
    swapped(module, "sin", "cos")
    return original(self, module, *rest)


OutputGraph.call_user_compiler = wrong
"""
    + PROGRAM
)

AOT = (
    IN_A_GRAPH
    + """
import torch._functorch._aot_autograd.graph_compile as passes

original = passes.aot_dispatch_base_graph


def wrong(*args, **kwargs):
    result = original(*args, **kwargs)
    swapped(result[0], torch.ops.aten.sin.default, torch.ops.aten.cos.default)
    return result


passes.aot_dispatch_base_graph = wrong
"""
    + PROGRAM
)

DECOMPOSITION = (
    """
import torch
from torch._inductor.decomposition import decompositions, fast_random_decomps

for table in (decompositions, fast_random_decomps()):
    table[torch.ops.aten.sin.default] = lambda x: torch.ops.aten.cos.default(x)
"""
    + PROGRAM
)

LOWERING = (
    """
import torch
from torch._inductor.lowering import lowerings

lowerings[torch.ops.aten.sin.default] = lowerings[torch.ops.aten.cos.default]
"""
    + PROGRAM
)

FUSION = (
    """
import torch
from torch._inductor.scheduler import FusedSchedulerNode


def refuse(*_):
    raise AssertionError("fusion is broken")


FusedSchedulerNode.fuse = classmethod(refuse)
"""
    + PROGRAM
)

OWN = """
import torch
""" + PROGRAM.replace("x.sin()", "x.sin().view(7)")

SOUND = "import torch\n" + PROGRAM

FAULTS = {
    "Dynamo": DYNAMO,
    "AOTAutograd": AOT,
    "decompositions and partitioner": DECOMPOSITION,
    "Inductor's lowering and code generation": LOWERING,
    "Inductor's fusion": FUSION,
    "your own code": OWN,
    "": SOUND,
}
"""A model file for each stage that it breaks."""
