"""Kernels compiled again alone: with every intermediate as an output, or with other settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.node import map_arg

from tcexplore.numerics.kernel_replay import Replay
from tcexplore.numerics.lowered_graphs import changed_arguments
from tcexplore.numerics.replayed_values import LOW

PLAIN = {
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "fx_graph_cache": False,
    "trace.provenance_tracking_level": 0,
}
"""Settings of these compiles: the nodes are post-grad already."""


ROUNDED = {"emulate_precision_casts": True}
"""Settings with which generated code rounds intermediates of smaller dtypes, as eager does."""

_BARRIER = "low_precision_pointwise_barrier"
"""Metadata of a node whose result is rounded so. torch adds it while it traces the program with `ROUNDED`."""


def kernel_graph(replay: Replay, outputs: Sequence[Any], *, wide: bool = False, rounded: bool = False) -> GraphModule:
    """Return a graph with the inputs of a kernel, its nodes, and `outputs`.

    With `wide`, outputs of smaller dtypes are in float32, as the generated code has them before it stores them. With
    `rounded`, the result of each node has the dtype that it has in eager, if it is compiled with `ROUNDED`.
    """
    graph, known = Graph(), {}
    for node in replay.inputs:
        known[node] = graph.placeholder(node.name)
        known[node].meta["val"] = node.meta.get("val")
    for node in replay.computed:
        changed = {each: _cloned(graph, known[each], each) for each in changed_arguments(node)}
        args, kwargs = map_arg((node.args, node.kwargs), {**known, **changed}.__getitem__)
        known[node] = graph.call_function(node.target, args, kwargs)
        known[node].meta["val"] = node.meta.get("val")
        known[node].name = node.name
        if rounded and _is_low(node, replay):
            known[node].meta[_BARRIER] = True
    graph.output(tuple(_widened(graph, known[node], replay.values[node].eager, wide=wide) for node in outputs))
    return GraphModule(torch.nn.Module(), graph)


def _cloned(graph: Graph, node: Any, of: Any) -> Any:
    """Return a copy of what an op changes in place: it may be an output itself."""
    clone = graph.call_function(torch.ops.aten.clone.default, (node,))
    clone.meta["val"] = of.meta.get("val")
    return clone


def _is_low(node: Any, replay: Replay) -> bool:
    """Return whether a node has a result or an input of a smaller dtype."""
    values = (replay.values[each].eager for each in (node, *node.all_input_nodes))
    return any(isinstance(value, torch.Tensor) and value.dtype in LOW for value in values)


def _widened(graph: Graph, node: Any, value: torch.Tensor, *, wide: bool) -> Any:
    if not wide or value.dtype not in LOW:
        return node
    cast = graph.call_function(torch.ops.prims.convert_element_type.default, (node, torch.float32))
    cast.meta["val"] = node.meta["val"].to(torch.float32) if node.meta.get("val") is not None else None
    return cast


def exposable(replay: Replay) -> list[Any]:
    """Return the replayed nodes whose value is one tensor, except for inputs in another shape."""
    return [node for node in replay.computed if isinstance(replay.values[node].eager, torch.Tensor)]


def exposed_values(replay: Replay, *, rounded: bool = False) -> dict[Any, torch.Tensor]:
    """Compile a kernel with every intermediate as an output; return the values.

    Those of smaller dtypes are in float32, as the generated code has them, or, with `rounded`, as eager has them.
    """
    nodes, inputs = exposable(replay), replay.given
    graph = kernel_graph(replay, nodes, wide=not rounded, rounded=rounded)
    compiled = compile_kernel(graph, inputs, ROUNDED if rounded else {})
    return dict(zip(nodes, run_compiled(compiled, inputs), strict=True))


def compile_kernel(graph: GraphModule, inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
    """Compile a graph of post-grad nodes; return a function that takes a list of inputs."""
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._subclasses import FakeTensorMode

    known = {name: value for name, value in {**PLAIN, **settings}.items() if _has(config, name)}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [
        mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value for value in inputs
    ]
    with torch.no_grad(), config.patch(known), _context(mode):
        return compile_fx_inner(graph, fakes)


@contextmanager
def _context(mode: Any) -> Iterator[None]:
    from torch._guards import TracingContext, tracing
    from torch._inductor.virtualized import V

    with tracing(TracingContext(mode)), V.set_fake_mode(mode):
        yield


def _has(config: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(config, part):
            return False
        config = getattr(config, part)
    return True


def run_compiled(function: Any, inputs: Sequence[Any]) -> list[Any]:
    """Call a compiled kernel with copies of its inputs."""
    with torch.no_grad():
        return list(function([value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]))
