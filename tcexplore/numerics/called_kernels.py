"""Calls of kernels, with what their judgement needs, and the statement that computes a node."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tcexplore.events import Kernel, KernelCall, KernelVerdict
from tcexplore.numerics.comparison import Comparison
from tcexplore.numerics.kernel_replay import GraphValues

NOT_JUDGED: Final = "not judged"


@dataclass(slots=True)
class CalledKernel:
    """One call of a kernel, with what its judgement needs."""

    kernel: Kernel
    call: KernelCall
    values: GraphValues
    outputs: list[Any]
    """Post-grad nodes whose values it writes."""
    repeats: bool | None = None
    verdict: KernelVerdict = NOT_JUDGED
    compared: dict[Any, Comparison] | None = None

    @property
    def worst(self) -> Any:
        """The node of the worst output."""
        assert self.compared
        return max(self.compared, key=lambda node: self.compared[node].severity)  # type: ignore[index]


def kernels_by_graph(judged: Sequence[CalledKernel]) -> list[list[CalledKernel]]:
    """Return the kernels of each graph, in the order of the graphs."""
    graphs: dict[int, list[CalledKernel]] = {}
    for called in judged:
        graphs.setdefault(id(called.values), []).append(called)
    return list(graphs.values())


def statement_of(called: CalledKernel, node: Any) -> tuple[int | None, str]:
    """Return the line of the kernel that computes a node.

    An op that only moves values has none: its index is in the loads of the ops that use it.
    """
    source = called.kernel.source.split("\n")
    lines = [line for line in called.call.lines or called.kernel.lines if line.n <= len(source)]
    names = {node.name, *([node.args[0].name] if node.target is operator.getitem else [])}
    own = [line for line in lines if names & set(line.nodes)]
    if own:
        return _computing(own, source)
    users = {user.name for user in node.users}
    loads = [line for line in lines if users & set(line.nodes) and _LOAD.search(source[line.n - 1])]
    return (loads[0].n, source[loads[0].n - 1].strip()) if loads else (None, "")


def _computing(lines: Sequence[Any], source: Sequence[str]) -> tuple[int | None, str]:
    """Return the statement that computes a value among the lines of its op, in the first of its loops."""
    if not lines:
        return None, ""
    texts = [(line.n, source[line.n - 1].strip()) for line in lines]
    # Statements of other loops follow with a gap; the first loop is the vectorized one.
    first: list[tuple[int, str]] = []
    for n, text in texts:
        if first and n > first[-1][0] + 40:
            break
        first.append((n, text))
    added = [(n, text) for n, text in first if _ADDED.search(text)]
    others = (_STORE, _LOAD, _CONSTANT, _LOOP)
    values = [(n, text) for n, text in first if not any(pattern.search(text) for pattern in others)]
    n, text = (added or values or first)[-1]
    return n, text


_ADDED = re.compile(r"atomic_add|out_ptr\d+\[.*\] \+=|tl\.store\((\w+) .*tl\.load\(\1 ")
"""Statements that add to memory: the store is what computes."""

_LOOP = re.compile(r"^for \(|^#pragma|^[{}]$")
_STORE = re.compile(r"\.store\(|tl\.store\(|^(in_)?out_ptr\d+\[|static_cast<int64_t>\(x\d+\)\] =")
_LOAD = re.compile(r"loadu\(|tl\.load\(| = (in_out|in|out)_ptr\d+\[")
_CONSTANT = re.compile(r"= static_cast<\w+>\([-\d.e+]+\);|Vectorized<\w+>\(tmp\d+\);|tl\.full\(")
