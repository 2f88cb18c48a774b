"""The reasons of Inductor's scheduler (`WhyNoFuse`) not to fuse two nodes, in plain words."""

from __future__ import annotations

import re
from functools import lru_cache

PLAIN = {
    "intermediate nodes between node1 & node2": (
        "something else has to run between them: it reads what the first one writes, and the second one needs it"
    ),
    "will create cycle": "fused, they would have to wait for something that itself waits for them",
    "node1 must go before node2": "in this order they cannot be one: the first one needs what the second one computes",
    "memory deps did not match": "the second one reads what the first writes in another order or at other places",
    "no shared data": "they have no data in common, so fusing them would save no memory traffic",
    "no shared data due to indexing mismatch": (
        "they use the same buffers, but in another order or at other places: fusing would save no memory traffic"
    ),
    "score_fusion_memory_threshold": "they share too little data for a fusion to be worth it",
    "exceeds max fusion": "the fused kernel would hold more nodes than `torch._inductor.config.max_fusion_size` allows",
    "Fusion will increase peak memory": "fused, they would keep buffers alive for longer, and peak memory would grow",
    "Nodes are too far away. Fusing them may increase peak memory.": (
        "they are far apart in the order of execution; fused, buffers would be alive for longer"
    ),
    "fusion_prevent_too_many_reads_and_writes": "the fused kernel would read and write too many buffers",
    "node1 is extern or nop": "the first one is a call into a library, or does nothing that a kernel could do",
    "node2 is extern or nop": "the second one is a call into a library, or does nothing that a kernel could do",
    "node1 is nop": "the first one does nothing that a kernel could do",
    "node1 is extern but not a triton kernel": "the first one is a call into a library",
    "node1's triton kernel doesn't support epilogue fusion": "the first one is your Triton kernel; none fits in",
    "node1 is extern but node2 is not SchedulerNode": "the first one is your Triton kernel, the second no single node",
    "node1 is extern but node2.node is not SchedulerNode": (
        "the first one is your Triton kernel, the second is not computed by a loop"
    ),
    "node1 is extern but node2.node.data is not Pointwise": (
        "the first one is your Triton kernel, the second does not work element by element"
    ),
    "epilogue reads from buffers other than the mutated output": (
        "the second one also reads buffers that the first, your Triton kernel, does not write"
    ),
    "epilogue is not a unary read of the output buffer": (
        "the second one does not just read what the first, your Triton kernel, writes"
    ),
    "epilogue's read and write indices differ": "the second one reads and writes at different places",
    "node1 and node2 uses different buf layouts": "their buffers are laid out differently in memory",
    "device mismatch (%s vs %s)": "they run on different devices: {0} and {1}",
    "fusion for buffer explicit disabled": "one of the buffers is marked never to be fused",
    "grouped node must not be fused with other nodes": "one of them belongs to a group of nodes that stays as it is",
    "nodes numel/rnumel incompatibility": "their loops have different sizes, and no loop over both can be made",
    "nodes numel incompatibility": "their loops have different sizes, and no loop over both can be made",
    "numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)": (
        "both reduce, but over different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch (non-reduce) (%s, %s), (%s, %s)": (
        "their loops have different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch prologue mismatch (%s, %s), (%s, %s)": (
        "the sizes do not fit the template's input: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "tiling mismatch (%s, %s, %s)": "their loops are cut into different tiles: {0}, {1}, {2}",
    "invalid tiling for reduction": "the element-by-element part cannot be tiled the way the reduction is",
    "invalid loop order and tiling for native matmul": "its loops do not fit those of the matrix product",
    "Split scan cannot fuse with reductions": "a scan that is split into blocks cannot share a kernel with a reduction",
    "incompatible reduction contracts": "their reductions have to be done in different ways",
    "reduction fusion does not preserve strict reduction ordering": (
        "fused, a reduction would add up in another order than the one that was asked for"
    ),
    "template fusion does not preserve strict reduction ordering": (
        "fused, a reduction would add up in another order than the one that was asked for"
    ),
    "template epilogue not satisfied": "the matrix-product template cannot take the second one in at its end",
    "multi-output template epilogue requires ComputedBuffer": (
        "the template has several outputs and takes in only what a loop computes"
    ),
    "template has no allowed prologue inputs": "the template lets nothing be computed into its inputs",
    "template prologue can only fuse functional pointwise nodes": (
        "only element-by-element work without side effects can be computed into a template's inputs"
    ),
    "template prologue can only fuse nodes with a single use": (
        "what would be computed into the template's input is used elsewhere too"
    ),
    "template prologue can only fuse nodes with a single use into template": (
        "what would be computed into the template's input is used in it more than once"
    ),
    "prologue fusion turned off": "computing into a template's inputs is turned off (`prologue_fusion`)",
    "prologue fusion only supported for TritonTemplates": "only Triton templates have computed inputs",
    "prologue fusion only supported for pointwise nodes": (
        "only element-by-element work can be computed into a template's inputs"
    ),
    "prologue fusion not implemented for kernel for these inputs": (
        "this template lets nothing be computed into these of its inputs"
    ),
    "prologue fusion will not increase amount of bytes read in kernel": (
        "computed into the template's input, it would make the kernel read more"
    ),
    "prologue fusion that must be upcast to fp32 not profitable for low precision templates": (
        "it computes in float32, which would slow down a matrix product of lower precision"
    ),
    "prologue fusion will not increase attempt to fuse in padding bc it increases unaligned reads": (
        "it is padding; in the matrix product it would make reads unaligned"
    ),
    "register spilling of the first kernel": "measured on the GPU: the first one already runs out of registers",
    "register spilling of the second kernel": "measured on the GPU: the second one already runs out of registers",
    "register spilling of the fused kernel": "measured on the GPU: fused, they run out of registers",
    "foreach do not have same length": "both work on lists of tensors, but of different lengths",
    "candidate producer is not dep of any foreach consumer": "nothing in the list reads what the first one writes",
    "candidate consumer has no dep in any foreach producer": "the second one reads nothing that the list writes",
    "candidate consumer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the second one reduces, and kernels over lists of tensors cannot take that in"
    ),
    "candidate producer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the first one reduces, and kernels over lists of tensors cannot take that in"
    ),
    "a consumer depends on another producer sub-node": "part of the second one needs another part of the first",
    "cutlass epilogue fusion is not enabled": "taking work into a CUTLASS kernel is turned off",
    "epilogue fusion is only supported for TMA-enabled gemm ops": "only CUTLASS kernels with TMA take other work in",
}  # fmt: skip
"""torch's text with its `%s`, and its explanation; `{0}` is the first `%s`. "The first one" and "the second one" follow
torch's order of the two nodes."""


UNEXPLAINED = {
    "no loop in common: %s, %s": (
        "the second one reads what the first one writes, but their loops differ, {0} and {1}, and they have no outer "
        "loop in common"
    ),
    "loops of different ranges: %s, %s": "both use the same data, but their loops have different ranges: {0} and {1}",
    "%s nodes, at most %s per horizontal fusion": (
        "together they have {0} nodes; `torch._inductor.config.cpp.max_horizontal_fusion_size` lets {1} share a loop"
    ),
    "outer-loop fusions are not fused horizontally": (
        "one of them has nested loops that share an outer one already; those take in only what needs their results"
    ),
    "no prologue fusion into C++ templates": (
        "the second one is a C++ template, which reads its inputs as they are"
    ),
    "the C++ template does not support this epilogue": (
        "the first one is a C++ template; the second is nothing that it can do at its end"
    ),
    "no speed-up expected": "torch expects the fused kernel to be no faster",
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
