"""Short texts about a node: its value, its call, its name."""

from __future__ import annotations

from tcexplore.documents.labels import call_name
from tcexplore.events import FxNode


def format_tensor(node: FxNode) -> str:
    """Return `f32[64, 512]`, empty if the value is not a tensor."""
    if node.shape is None:
        return ""
    dtype = (node.dtype or "").removeprefix("torch.")
    return f"{dtype}[{', '.join(node.shape)}]"


def format_stride(node: FxNode) -> str:
    """Return `stride [1, 64]`, empty if the tensor is contiguous."""
    return "" if node.contiguous or node.stride is None else f"stride [{', '.join(node.stride)}]"


def format_call(node: FxNode, args: str | None = None) -> str:
    """Return the call with its arguments, or with `args`: `torch.nn.functional.gelu(layer_norm)`."""
    args = node.args if args is None else args
    if node.op == "output":
        return args
    launched = node.user_op is not None and node.user_op.kind == "Triton kernel"
    callee = node.user_op.name if node.user_op and launched else node.target
    return f"{callee}({args})" if node.op.startswith("call_") else node.target


def name_node(node: FxNode) -> str:
    """Return the last name of an op (`gelu`), the name of an input in the source, or `output`."""
    return call_name(node) if node.op.startswith("call_") else node.target
