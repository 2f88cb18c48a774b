"""Runs of a whole post-grad graph op by op, in the dtype of the program or in another one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map

from tcexplore.numerics.kernel_replay import GraphValues, is_random, mutated_nodes
from tcexplore.numerics.replayed_values import run_exactly, run_op, widened

LARGEST_BYTES = 4 << 30
"""Bytes of the values of one graph up to which it is run."""


class NodeRunner:
    """Computes nodes of a graph from values of other nodes."""

    def __init__(self, module: Any, real: GraphValues, dtype: torch.dtype | None) -> None:
        """`dtype` replaces the floating-point dtypes of the program; None keeps them."""
        self.module = module
        self._real = {node.name: value for node, value in real.real.items()}
        self._dtype = dtype
        self._mutated = mutated_nodes(module)

    def given(self, value: Any) -> Any:
        """Return a real value in the dtype of this run."""
        dtype = self._dtype
        return value if dtype is None else tree_map(lambda leaf: widened(leaf, dtype), value)

    def value(self, node: Any, values: Mapping[str, Any]) -> Any:
        """Return the value of a node; None if it depends on an unknown value, or does not run so."""
        if node in self._mutated:
            return None
        if node.op == "get_attr":
            return self.given(operator.attrgetter(node.target)(self.module))
        if node.op != "call_function" or any(each.name not in values for each in node.all_input_nodes):
            return None
        if is_random(node):
            real = self._real.get(node.name)
            return None if real is None else self.given(real)
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: values[each.name])
        try:
            if node.target is operator.getitem:
                return args[0][args[1]]
            if self._dtype is None:
                return run_op(node.target, args, kwargs)
            return run_exactly(node.target, args, kwargs, self._dtype)
        except Exception:  # noqa: BLE001  what does not run in this dtype is not known
            return None


def run_graph(
    module: Any,
    real: GraphValues,
    dtype: torch.dtype | None,
    in_time: Callable[[], bool],
    *,
    stored: bool = False,
    inputs: Mapping[str, Any] | None = None,
    saved: Mapping[str, Any] | None = None,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a graph on the arguments of a call; return the values by node, without those that are not known.

    With `stored`, a node whose value a kernel stored has this one. `inputs` by name replace the arguments; `saved` has
    values for the inputs of a backward, and `known` those of nodes that another run has computed.
    """
    runner, values = NodeRunner(module, real, dtype), dict[str, Any]()
    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    if inputs is None:
        inputs = dict(zip(placeholders, real.arguments, strict=True))
    size = 0
    for node in module.graph.nodes:
        if node.op == "placeholder":
            if node.name in inputs:
                values[node.name] = saved_value(runner.given(inputs[node.name]), (saved or {}).get(node.name))
            continue
        if node.op == "output" or not in_time() or size > LARGEST_BYTES:
            break
        if known is not None and node.name in known:
            values[node.name] = known[node.name]
            continue
        value = real.real[node] if stored and node in real.real else runner.value(node, values)
        if value is not None:
            values[node.name] = value
            size += byte_count(value)
    return values


def saved_value(given: Any, saved: Any) -> Any:
    """Return the value that another run saved for an input, if it is one for what is `given`."""
    same = isinstance(saved, torch.Tensor) and isinstance(given, torch.Tensor) and saved.shape == given.shape
    return saved if same else given


def byte_count(value: Any) -> int:
    """Return the bytes of the tensors of a value."""
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def output_nodes(module: Any) -> list[Any]:
    """Return the outputs of a graph, most of which are nodes."""
    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    leaves: list[Any] = tree_leaves(output.args)
    return leaves
