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

DYNAMO_CRASH = (
    """
import torch
from torch._dynamo.output_graph import OutputGraph


def refuse(*_, **__):
    raise AssertionError("Dynamo is broken")


OutputGraph.compile_and_call_fx_graph = refuse
"""
    + PROGRAM
)

AOT_CRASH = (
    """
import torch
import torch._functorch.aot_autograd as aot


def refuse(*_, **__):
    raise AssertionError("AOTAutograd is broken")


aot.create_aot_state = refuse
"""
    + PROGRAM
)

SOFTMAX_DECOMPOSITION = (
    """
import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten._softmax.default] = lambda x, dim, half: torch.ops.aten.sigmoid.default(x)
"""
    + PROGRAM
)

PASS = """
import torch
from torch._inductor import config


def swap(graph):
    for node in graph.nodes:
        if node.target in (torch.sin, "sin", torch.ops.aten.sin.default):
            node.target = {{torch.sin: torch.cos, "sin": "cos"}}.get(node.target, torch.ops.aten.cos.default)


config.{name} = swap
"""
PRE_GRAD_PASS = PASS.format(name="pre_grad_custom_pass") + PROGRAM
POST_GRAD_PASS = PASS.format(name="post_grad_custom_post_pass") + PROGRAM

CODEGEN = (
    """
import torch
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

for overrides in (CppOverrides, CppVecOverrides):
    overrides.sin = overrides.cos
"""
    + PROGRAM
)

FUSED_CODEGEN = (
    """
import torch
from torch._inductor.codegen.cpp import CppScheduling

original = CppScheduling.codegen_node


def wrong(self, node):
    if len(node.get_nodes()) > 1:
        raise AssertionError("code of fused nodes is broken")
    return original(self, node)


CppScheduling.codegen_node = wrong
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

_INDUCTOR = "Inductor's lowering and code generation"
MORE_FAULTS = {
    "Dynamo, a changed graph": ("Dynamo", DYNAMO),
    "Dynamo, a crash": ("Dynamo", DYNAMO_CRASH),
    "AOTAutograd, a changed graph": ("AOTAutograd", AOT),
    "AOTAutograd, a crash": ("AOTAutograd", AOT_CRASH),
    "a decomposition of sin": ("decompositions and partitioner", DECOMPOSITION),
    "a decomposition of softmax": ("decompositions and partitioner", SOFTMAX_DECOMPOSITION),
    "a pass before autograd": (_INDUCTOR, PRE_GRAD_PASS),
    "a pass after autograd": (_INDUCTOR, POST_GRAD_PASS),
    "a lowering": (_INDUCTOR, LOWERING),
    "C++ code of sin": (_INDUCTOR, CODEGEN),
    "fusion, a crash": ("Inductor's fusion", FUSION),
    "code of fused nodes": ("Inductor's fusion", FUSED_CODEGEN),
}
"""Twelve faults: the stage that each breaks, and a model file."""
