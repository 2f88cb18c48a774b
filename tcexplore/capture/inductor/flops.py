"""Floating-point operations of one node, by torch's own table of formulas; nothing is run to count them."""

from __future__ import annotations

from typing import Any

from torch.fx.node import Node, map_arg
from torch.utils.flop_counter import flop_registry


def flops(node: Node | None) -> int | None:
    """The count for a post-grad node; None where torch has no formula, or where the shapes are symbolic."""
    formula: Any = flop_registry.get(getattr(node.target, "overloadpacket", None)) if node is not None else None
    if node is None or formula is None:
        return None
    args, kwargs = (map_arg(values, lambda used: used.meta.get("val")) for values in (node.args, node.kwargs))
    try:
        count = formula(*args, **kwargs, out_val=node.meta.get("val"))
    except (TypeError, ValueError, AssertionError):
        return None
    return count if isinstance(count, int) else None
