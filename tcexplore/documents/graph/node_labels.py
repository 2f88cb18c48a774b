"""What a node does and what its value is, in short texts."""

from __future__ import annotations

from tcexplore.documents.labels import op_name
from tcexplore.events import FxNode


def format_tensor(node: FxNode) -> str:
    """`f32[64, 512]`; empty for what is no tensor."""
    if node.shape is None:
        return ""
    dtype = (node.dtype or "").removeprefix("torch.")
    return f"{dtype}[{', '.join(node.shape)}]"


def format_stride(node: FxNode) -> str:
    """`stride [1, 64]` where a tensor is not contiguous, empty where it is."""
    return "" if node.contiguous or node.stride is None else f"stride [{', '.join(node.stride)}]"


def format_call(node: FxNode, args: str | None = None) -> str:
    """What the node calls and with what: `torch.nn.functional.gelu(layer_norm)`; `args` stands for its own."""
    args = node.args if args is None else args
    if node.op == "output":
        return args
    return f"{node.target}({args})" if node.op.startswith("call_") else node.target


def name_node(node: FxNode) -> str:
    """The op by its last name (`gelu`), what the user calls an input, `output`."""
    return op_name(node.target) if node.op.startswith("call_") else node.target
