"""Ops that Inductor calls as eager does, instead of generating code for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def eager_kernels(ops: Iterable[Any]) -> Iterator[None]:
    """Let compiles in this context call eager's kernel for each of these ops."""
    from torch._inductor import lowering

    ops = tuple(ops)
    before = {op: lowering.lowerings.get(op) for op in ops}
    lowering.lowerings.update({op: lowering.fallback_handler(op, add_to_fallback_set=False) for op in ops})
    try:
        yield
    finally:
        for op, original in before.items():
            if original is None:
                lowering.lowerings.pop(op, None)
            else:
                lowering.lowerings[op] = original


def use_eager_kernels(names: Iterable[str]) -> None:
    """Let all later compiles call eager's kernel for ops such as `aten.sum.dim_IntList`. Raise `AttributeError`."""
    from torch._inductor import decomposition, lowering

    for name in names:
        op = find_op(name)
        for table in (decomposition.decompositions, decomposition.fast_random_decomps()):
            table.pop(op, None)
        lowering.lowerings[op] = lowering.fallback_handler(op, add_to_fallback_set=False)


def find_op(name: str) -> Any:
    """Return the op with this name."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found
