"""Check of the nodes that kernels are generated from: decompositions and passes must not change a graph's values.

Both sides run in float64 on the inputs that the graph really got, so they agree to ten digits or more if they are
equivalent, whatever their order of operations is. A difference counts only if float32 shows it too: an op that depends
on the dtype gives another result in float64. And it must be about as large there: where terms cancel, such as in the
gradient of a sum of normalized values, what is left is rounding, which is a billion times smaller in float64.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compile_id
from tcexplore.numerics.graph_runs import output_nodes, run_graph
from tcexplore.numerics.kernel_replay import GraphValues, mutated_nodes
from tcexplore.numerics.lowered_graphs import FACT, LoweredGraph, PassedGraph
from tcexplore.numerics.replayed_values import op_name, run_exactly

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Largest difference of equivalent nodes, relative to the largest value of the tensor."""

ROUNDING = 1e-3
"""A difference in float64 that is a smaller part of that in float32 is rounding."""


class Decomposed(NamedTuple):
    """An op that was replaced by others while the joint graph was traced; nodes stand for tensors."""

    op: Any
    args: Any
    kwargs: Any
    outputs: Any
    graph: str
    """The compile id of the Dynamo graph."""

    @property
    def nodes(self) -> list[Any]:
        """The nodes of its arguments and results."""
        leaves = tree_leaves((self.args, self.kwargs, self.outputs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]


class Decompositions:
    """Recorder of the decompositions that are applied to the program's graphs, inner ones first."""

    def __init__(self) -> None:
        self.recording = True
        self.all: list[Decomposed] = []

    def install(self, hooks: Hooks) -> None:
        """Watch ops being decomposed."""
        hooks.watch(FACT, "torch.fx.experimental.proxy_tensor:maybe_handle_decomp", after=self._handled)

    def _handled(self, result: Any, mode: Any, op: Any, args: Any, kwargs: Any) -> None:
        if not self.recording or result is NotImplemented or "empty" in op_name(op):
            return
        node_of = _Nodes(mode.tracer)
        outputs = tree_map(node_of, result)
        if any(isinstance(leaf, torch.fx.Node) for leaf in tree_leaves(outputs)):
            args, kwargs = tree_map(node_of, (args, kwargs))
            self.all.append(Decomposed(op, args, kwargs, outputs, compile_id()))


class _Nodes:
    """Nodes of traced tensors."""

    def __init__(self, tracer: Any) -> None:
        from torch.fx.experimental.proxy_tensor import get_proxy_slot

        self._slot = get_proxy_slot
        self._tracer = tracer

    def __call__(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool):
            return leaf
        slot = self._slot(leaf, self._tracer, None)
        proxy = getattr(slot, "proxy", slot)
        if callable(proxy) and not hasattr(proxy, "node"):
            proxy = proxy()
        node = getattr(proxy, "node", leaf)
        return _source(node) if isinstance(node, torch.fx.Node) else node


class WrongNode(NamedTuple):
    """A node of a graph whose value is not that of the nodes it was made from."""

    stage: Literal["decomposition", "pass"]
    culprit: str
    op: str
    node: Any
    """A node of the graph before Inductor's passes, or after them."""
    right: torch.Tensor
    wrong: torch.Tensor
    """Both in float64."""


@dataclass(slots=True)
class _Values:
    """The values of a graph's nodes by name, in one dtype."""

    dtype: torch.dtype
    values: dict[str, Any]


class GraphCheck:
    """The graph of one call before and after Inductor's passes."""

    def __init__(
        self, graph: LoweredGraph, real: GraphValues, in_time: Callable[[], bool], forward: GraphCheck | None = None
    ) -> None:
        """`forward` belongs to the graph whose backward this one is."""
        self._graph = graph
        self._forward = forward
        self._in_time = in_time
        self._real = real
        self._runs: dict[tuple[int, torch.dtype], _Values] = {}

    def wrong_decomposition(self, decompositions: Sequence[Decomposed]) -> WrongNode | None:
        """Return the first op that its decomposition does not compute."""
        if self._graph.before is None:
            return None
        own = {node.name for node in self._graph.before.graph.nodes}
        known = self._known_nodes()
        for one in decompositions:
            if one.graph != self._graph.graph or not all(_same_node(node, known) for node in one.nodes):
                continue
            if own.isdisjoint(node.name for node in tree_leaves(one.outputs) if isinstance(node, torch.fx.Node)):
                continue
            compared = self._decomposed(one, torch.float64)
            single = self._decomposed(one, torch.float32) if compared else {}
            for node, (right, wrong) in compared.items():
                if node in single and not _is_rounding((right, wrong), single[node]):
                    return WrongNode("decomposition", op_name(one.op), op_name(one.op), node, right, wrong)
        return None

    def _known_nodes(self) -> dict[str, Any]:
        """Return the nodes before the passes by name, those of the forward included: not all are saved."""
        before = self._forward._known_nodes() if self._forward is not None else {}
        return before | {node.name: node for node in self._graph.before.graph.nodes} if self._graph.before else before

    def _known_values(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the values of these nodes."""
        before = self._forward._known_values(dtype) if self._forward is not None else {}
        return before | self._run(self._graph.before, dtype).values if self._graph.before is not None else before

    def wrong_pass(self, *, joint: bool = True) -> WrongNode | None:
        """Return the first node that passes gave another value; with `joint`, check those on the joint graph, too."""
        passes_on_joint = self._graph.joint if joint else None
        if passes_on_joint is not None and (wrong := self._first_changed(passes_on_joint, self._inputs())):
            return wrong
        if self._graph.before is None:
            return None
        return self._first_changed(PassedGraph(self._graph.before, self._graph.module))

    def _inputs(self) -> dict[str, Any]:
        """Return the real values of inputs by name, those of the forward included."""
        forward = self._forward._inputs() if self._forward is not None else {}
        names = (node.name for node in self._graph.module.graph.nodes if node.op == "placeholder")
        return forward | dict(zip(names, self._real.arguments, strict=False))

    def _first_changed(self, graph: PassedGraph, inputs: Mapping[str, Any] | None = None) -> WrongNode | None:
        """Return the first node to which passes gave another value; with `inputs` by name instead of the arguments."""
        if str(graph.before.graph) == str(graph.after.graph):
            return None
        kept = kept_nodes(graph.before, graph.after)
        nodes = {node.name: node for node in graph.after.graph.nodes if node.op == "call_function"}
        pairs = [(node, name, name) for name, node in nodes.items() if name not in kept]
        # An output may have another name after the passes.
        outputs = zip(output_nodes(graph.before), output_nodes(graph.after), strict=False)
        for one, other in outputs:
            if isinstance(one, torch.fx.Node) and isinstance(other, torch.fx.Node):
                pairs.append((other, one.name, other.name))

        def values(first: str, second: str, dtype: torch.dtype) -> tuple[Any, Any]:
            before = self._run(graph.before, dtype, inputs).values
            known = {name: value for name, value in before.items() if name in kept}
            return before.get(first), self._run(graph.after, dtype, inputs, known).values.get(second)

        def differ(first: str, second: str) -> tuple[Any, Any] | None:
            double = values(first, second, torch.float64)
            if _agree(*double, torch.float64):
                return None
            single = values(first, second, torch.float32)
            return None if _agree(*single, torch.float32) or _is_rounding(double, single) else double

        before = {node.name: node for node in graph.before.graph.nodes}
        for node, first, second in pairs:
            if (double := differ(first, second)) is None:
                continue
            # A pass may have put another node in the place of an input.
            for one, other in zip(before[first].all_input_nodes, node.all_input_nodes, strict=False):
                if one.name != other.name and (of_input := differ(one.name, other.name)) is not None:
                    return WrongNode("pass", "", op_name(one.target), one, *of_input)
            return WrongNode("pass", "", op_name(node.target), node, *double)
        return None

    def _decomposed(self, one: Decomposed, dtype: torch.dtype) -> dict[Any, tuple[torch.Tensor, torch.Tensor]]:
        """Return the outputs of an op that its decomposition gets wrong, with their right and wrong values."""
        known = self._known_values(dtype)
        nodes = [leaf for leaf in tree_leaves((one.args, one.kwargs)) if isinstance(leaf, torch.fx.Node)]
        if any(node.name not in known for node in nodes) or _draws(one.op):
            return {}

        def value(leaf: Any) -> Any:
            return known[leaf.name] if isinstance(leaf, torch.fx.Node) else leaf

        args, kwargs = tree_map(value, (one.args, one.kwargs))
        if any(isinstance(leaf, torch.SymInt) for leaf in tree_leaves((args, kwargs))):
            return {}
        try:
            results = run_exactly(one.op, args, kwargs, dtype)
        except Exception:  # noqa: BLE001  an op that does not run in this dtype is not checked
            return {}
        pairs = zip(tree_leaves(one.outputs), tree_leaves(results), strict=False)
        compared = {node: (right, known.get(node.name)) for node, right in pairs if isinstance(node, torch.fx.Node)}
        return {node: pair for node, pair in compared.items() if not _agree(*pair, dtype)}

    def _run(
        self,
        module: Any,
        dtype: torch.dtype,
        inputs: Mapping[str, Any] | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> _Values:
        key = id(module), dtype
        if key not in self._runs:
            # The saved values of the same run: those that the kernels gave may be wrong.
            saved = self._forward._known_values(dtype) if self._forward is not None and inputs is None else {}
            values = run_graph(module, self._real, dtype, self._in_time, inputs=inputs, saved=saved, known=known or {})
            self._runs[key] = _Values(dtype, values)
        return self._runs[key]


def kept_nodes(before: Any, after: Any) -> frozenset[str]:
    """Return the names of the nodes that a pass has kept, with all that they are computed from."""
    known = {node.name: node for node in before.graph.nodes}
    mutated = mutated_nodes(after)
    kept: set[str] = set()
    for node in after.graph.nodes:
        one = known.get(node.name)
        if one is None or node in mutated or (one.op, one.target) != (node.op, node.target):
            continue
        inputs = all(each.name in kept for each in node.all_input_nodes)
        if inputs and (str(one.args), str(one.kwargs)) == (str(node.args), str(node.kwargs)):
            kept.add(node.name)
    return frozenset(kept)


_NO_OPS = ("aten.detach", "aten.alias", "aten.lift_fresh_copy")


def _source(node: Any) -> Any:
    """Return the node whose value a node has that changes nothing: a pass removes such nodes, with their arguments."""
    while op_name(node.target) in _NO_OPS and node.args and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def _same_node(traced: Any, known: dict[str, Any]) -> bool:
    """Return whether a traced node is in the graph, unchanged: another trace may have had a node of this name.

    A value that the forward saves is an input of the backward, under the name of its node.
    """
    node = known.get(traced.name)
    if node is None or node.op == "placeholder":
        return node is not None
    if node.op != traced.op or node.target is not traced.target:
        return False
    names = [[_source(each).name for each in one.all_input_nodes] for one in (node, traced)]
    return bool(names[0] == names[1])


def _draws(op: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())


def _agree(right: Any, wrong: Any, dtype: torch.dtype) -> bool:
    """Return whether two values agree; a value that is not known agrees with any."""
    if not isinstance(right, torch.Tensor) or not isinstance(wrong, torch.Tensor) or right.shape != wrong.shape:
        return True
    if right.dtype is not dtype or wrong.dtype is not dtype or not right.numel():
        return True
    if torch.equal(right, wrong):
        return True
    difference, largest = float((right - wrong).abs_().max()), float(right.abs().max())
    if not math.isfinite(difference):
        if not _same_finite(right, wrong):
            return False
        finite = torch.isfinite(right)
        if not bool(finite.any()):
            return True
        difference, largest = float((right - wrong)[finite].abs().max()), float(right[finite].abs().max())
    return difference <= TOLERANCES[dtype] * largest + float(torch.finfo(dtype).tiny)


def _is_rounding(double: Any, single: Any) -> bool:
    """Return whether two values differ by rounding: then they differ far less in float64 than in float32."""
    largest = [_largest_difference(*pair) for pair in (double, single)]
    return all(map(math.isfinite, largest)) and largest[0] < ROUNDING * largest[1]


def _largest_difference(right: torch.Tensor, wrong: torch.Tensor) -> float:
    difference = torch.nan_to_num((right - wrong).abs(), nan=0.0 if _same_finite(right, wrong) else math.inf)
    return float(difference.max())


def _same_finite(right: torch.Tensor, wrong: torch.Tensor) -> bool:
    return bool(torch.equal(torch.isfinite(right), torch.isfinite(wrong)))


def time_limit(seconds: float) -> Callable[[], bool]:
    """Return a function that tells whether this time is not over."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began < seconds
