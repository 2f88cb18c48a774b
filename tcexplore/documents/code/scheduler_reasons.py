"""The reasons of Inductor's scheduler (`WhyNoFuse`) not to fuse two nodes, in plain words."""

from __future__ import annotations

import re
from functools import lru_cache

PLAIN = {
    "intermediate nodes between node1 & node2": (
        "another node runs in between: it reads the result of the first one, and the second one needs its result"
    ),
    "will create cycle": "fusing them would create a cycle through another node",
    "node1 must go before node2": "the first one needs the result of the second one, so they cannot fuse in this order",
    "memory deps did not match": "the second one reads the first result in another order or at other indices",
    "no shared data": "they share no data, so fusing them would save no memory traffic",
    "no shared data due to indexing mismatch": (
        "they access the same buffers in another order or at other indices: fusing would save no memory traffic"
    ),
    "score_fusion_memory_threshold": "they share too little data",
    "exceeds max fusion": "the fused kernel would have more nodes than `torch._inductor.config.max_fusion_size` allows",
    "Fusion will increase peak memory": "fusing would keep buffers alive longer and raise peak memory",
    "Nodes are too far away. Fusing them may increase peak memory.": (
        "they are far apart in the execution order; fusing would keep buffers alive longer"
    ),
    "fusion_prevent_too_many_reads_and_writes": "the fused kernel would read and write too many buffers",
    "node1 is extern or nop": "the first one is a library call or a no-op",
    "node2 is extern or nop": "the second one is a library call or a no-op",
    "node1 is nop": "the first one is a no-op",
    "node1 is extern but not a triton kernel": "the first one is a library call",
    "node1's triton kernel doesn't support epilogue fusion": (
        "the first one is your Triton kernel, which supports no epilogue"
    ),
    "node1 is extern but node2 is not SchedulerNode": (
        "the first one is your Triton kernel, the second one is not a single node"
    ),
    "node1 is extern but node2.node is not SchedulerNode": (
        "the first one is your Triton kernel, the second one is not a loop"
    ),
    "node1 is extern but node2.node.data is not Pointwise": (
        "the first one is your Triton kernel, the second one is not pointwise"
    ),
    "epilogue reads from buffers other than the mutated output": (
        "the second one also reads buffers that the first one, your Triton kernel, does not write"
    ),
    "epilogue is not a unary read of the output buffer": (
        "the second one is not a unary op on the output of the first one, your Triton kernel"
    ),
    "epilogue's read and write indices differ": "the second one reads and writes at different indices",
    "node1 and node2 uses different buf layouts": "their buffers have different memory layouts",
    "device mismatch (%s vs %s)": "they run on different devices: {0} and {1}",
    "fusion for buffer explicit disabled": "one of the buffers is excluded from fusion",
    "grouped node must not be fused with other nodes": "one of them belongs to a group that allows no further fusion",
    "nodes numel/rnumel incompatibility": "their loops have incompatible sizes",
    "nodes numel incompatibility": "their loops have incompatible sizes",
    "numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)": (
        "both are reductions, but of different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch (non-reduce) (%s, %s), (%s, %s)": (
        "their loops have different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch prologue mismatch (%s, %s), (%s, %s)": (
        "the sizes do not match the template's input: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "tiling mismatch (%s, %s, %s)": "their loops have different tilings: {0}, {1}, {2}",
    "invalid tiling for reduction": "the pointwise part cannot use the tiling of the reduction",
    "invalid loop order and tiling for native matmul": "its loop order or tiling does not match the matrix product",
    "Split scan cannot fuse with reductions": "a scan that is split into blocks cannot share a kernel with a reduction",
    "incompatible reduction contracts": "their reductions have different requirements",
    "reduction fusion does not preserve strict reduction ordering": (
        "fusing would change the order of a reduction that must be strict"
    ),
    "template fusion does not preserve strict reduction ordering": (
        "fusing would change the order of a reduction that must be strict"
    ),
    "template epilogue not satisfied": "the matrix-product template does not support the second one as an epilogue",
    "multi-output template epilogue requires ComputedBuffer": (
        "the template has several outputs, so its epilogue must be a computed buffer"
    ),
    "template has no allowed prologue inputs": "no input of the template allows a prologue",
    "template prologue can only fuse functional pointwise nodes": (
        "a template prologue must be pointwise and free of side effects"
    ),
    "template prologue can only fuse nodes with a single use": (
        "the result of the prologue is also used elsewhere"
    ),
    "template prologue can only fuse nodes with a single use into template": (
        "the template uses the result of the prologue more than once"
    ),
    "prologue fusion turned off": "prologue fusion is off (`prologue_fusion`)",
    "prologue fusion only supported for TritonTemplates": "only Triton templates support a prologue",
    "prologue fusion only supported for pointwise nodes": (
        "a template prologue must be pointwise"
    ),
    "prologue fusion not implemented for kernel for these inputs": (
        "this template supports no prologue for these inputs"
    ),
    "prologue fusion will not increase amount of bytes read in kernel": (
        "as a prologue, it would make the kernel read more bytes"
    ),
    "prologue fusion that must be upcast to fp32 not profitable for low precision templates": (
        "it computes in float32, which would slow down a matrix product of lower precision"
    ),
    "prologue fusion will not increase attempt to fuse in padding bc it increases unaligned reads": (
        "it is padding; as a prologue, it would make reads unaligned"
    ),
    "register spilling of the first kernel": "measured on the GPU: the first one already spills registers",
    "register spilling of the second kernel": "measured on the GPU: the second one already spills registers",
    "register spilling of the fused kernel": "measured on the GPU: the fused kernel spills registers",
    "foreach do not have same length": "both are foreach ops, but on lists of different lengths",
    "candidate producer is not dep of any foreach consumer": "no foreach consumer reads the result of the first one",
    "candidate consumer has no dep in any foreach producer": "the second one reads no result of the foreach producers",
    "candidate consumer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the second one is a reduction, which foreach kernels do not support"
    ),
    "candidate producer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the first one is a reduction, which foreach kernels do not support"
    ),
    "a consumer depends on another producer sub-node": "a part of the second one needs another part of the first one",
    "cutlass epilogue fusion is not enabled": "epilogue fusion into CUTLASS kernels is off",
    "epilogue fusion is only supported for TMA-enabled gemm ops": "only CUTLASS kernels with TMA support an epilogue",
}  # fmt: skip
"""torch's text with its `%s`, and its explanation; `{0}` is the first `%s`. "The first one" and "the second one" follow
torch's order of the two nodes."""


UNEXPLAINED = {
    "no loop in common: %s, %s": (
        "the second one reads the result of the first one, but their loops, {0} and {1}, share no outer loop"
    ),
    "loops of different ranges: %s, %s": "they share data, but their loops have different ranges: {0} and {1}",
    "%s nodes, at most %s per horizontal fusion": (
        "together they have {0} nodes; `torch._inductor.config.cpp.max_horizontal_fusion_size` lets {1} share a loop"
    ),
    "outer-loop fusions are not fused horizontally": (
        "one of them is an outer-loop fusion, which is fused only with nodes that need its results"
    ),
    "no prologue fusion into C++ templates": (
        "the second one is a C++ template, which supports no prologue"
    ),
    "the C++ template does not support this epilogue": (
        "the first one is a C++ template, which does not support the second one as an epilogue"
    ),
    "no speedup expected": "torch expects the fused kernel to be no faster",
}  # fmt: skip
"""Explanations of the refusals for which torch gives no reason and tcexplore records one."""


@lru_cache(maxsize=1024)
def explain_refusal(reason: str) -> str:
    """Return the reason in plain words, empty if it is unknown."""
    if reason in PLAIN:
        return PLAIN[reason]
    for pattern, text in _patterns():
        if match := pattern.fullmatch(reason):
            return text.format(*match.groups())
    return ""


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(re.escape(text).replace("%s", "(.+?)"), re.DOTALL), plain_text)
        for text, plain_text in (PLAIN | UNEXPLAINED).items()
        if "%s" in text or text in UNEXPLAINED
    )
