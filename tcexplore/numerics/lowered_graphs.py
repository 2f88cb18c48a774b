"""Inductor's graphs as they were lowered: the post-grad graph, the node that each buffer holds, and the wrapper."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compilation, compile_id, root
from tcexplore.events import GraphPhase

FACT = "numerics of kernels"


class HeldNode(NamedTuple):
    """A post-grad node, and how its value lies in the buffer that holds it."""

    node: Any
    strides: tuple[Any, Any, Any] | None
    """Sizes, strides and offset; None if they are those of the buffer."""


class BufferChange(NamedTuple):
    """An op that changes a buffer in place."""

    operation: str
    """Its name among the buffers that a kernel writes."""
    held: HeldNode | None
    """The node whose value the buffer then holds; None if it is not known."""


class PassedGraph(NamedTuple):
    """A graph before and after passes of Inductor."""

    before: Any
    after: Any


@dataclass(slots=True)
class LoweredGraph:
    """One of Inductor's compiles."""

    graph: str
    """The compile id of the Dynamo graph."""
    phase: GraphPhase
    module: Any
    """The post-grad `GraphModule`."""
    wrapper: Any
    """The Python module with the function `call`."""
    nodes: dict[str, HeldNode]
    """The post-grad node whose value a buffer holds, by the name of the buffer."""
    before: Any = None
    """The `GraphModule` before Inductor's post-grad passes; None if it is not known."""
    joint: PassedGraph | None = None
    """The graph of forward and backward before it is partitioned, or that of an inference; None if it is not known."""
    mutated_inputs: frozenset[str] = frozenset()
    changes: dict[str, tuple[BufferChange, ...]] = field(default_factory=dict)
    """What changes a buffer in place after its node, by the name of the buffer."""


class LoweredGraphs:
    """Recorder of the graphs that are compiled while `recording`."""

    def __init__(self) -> None:
        self.notify: Callable[[LoweredGraph], None] = lambda _: None
        """Called with each graph before its wrapper is called."""
        self.graphs: list[LoweredGraph] = []
        self.recording = True
        self._before: Any = None
        self._joint_before: list[Any] = []
        """Of the passes that run; those of subgraphs run within the others."""
        self._joint: dict[str, PassedGraph] = {}
        """By the compile id of the Dynamo graph."""
        self._results: WeakKeyDictionary[Any, dict[Any, tuple[Any, int]]] = WeakKeyDictionary()
        """What each node was lowered to, and the number of operations that there were then."""

    def install(self, hooks: Hooks) -> None:
        """Watch nodes being lowered, and wrappers being loaded."""
        hooks.watch(
            FACT, "torch._inductor.compile_fx:_recursive_joint_graph_passes",
            before=self._joint_passes_begin, after=self._joint_passes_end,
        )  # fmt: skip
        hooks.watch(FACT, "torch._inductor.compile_fx:post_grad_passes", before=self._passes_begin)
        hooks.watch(FACT, "torch._inductor.graph:GraphLowering.run_node", after=self._lowered)
        hooks.watch(FACT, "torch._inductor.graph:GraphLowering._compile_to_module_lines", after=self._loaded)
        # A replayed CUDA graph does not call the wrapper.
        hooks.wrap(FACT, "torch._inductor.compile_fx:cudagraphify", self._without_cuda_graph)

    def _without_cuda_graph(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda model, *args, **kwargs: model if self.recording else original(model, *args, **kwargs)

    def _lowered(self, result: Any, lowering: Any, node: Any) -> None:
        if self.recording and node.op == "call_function":
            self._results.setdefault(lowering, {})[node] = result, len(lowering.operations)

    def _loaded(self, wrapper: Any, lowering: Any, *_: Any) -> None:
        results = self._results.pop(lowering, {})
        if not self.recording or root(lowering) is not lowering or getattr(lowering, "is_const_graph", False):
            return
        changed_by = _changing_operations(lowering)
        # A kernel keeps their values in registers. One may still be an argument, with the memory of an input.
        never_stored = {*lowering.removed_buffers, *lowering.inplaced_to_remove}
        held: dict[tuple[str, int], HeldNode] = {}
        for node, (result, operations) in results.items():
            name, strides = _place(result)
            if name is None or name in never_stored:
                continue
            changes = sum(place < operations for place, _ in changed_by.get(name, ()))
            # A node that changes nothing, such as a cast to the same dtype, holds the buffer of an earlier node.
            if changes or name not in lowering.graph_inputs:
                held.setdefault((name, changes), HeldNode(node, strides))
        graph, phase = compilation(lowering)
        self.graphs.append(
            LoweredGraph(
                graph=graph, phase=phase, module=lowering.module, wrapper=wrapper,
                nodes={name: node for (name, changes), node in held.items() if not changes},
                before=self._before, joint=self._joint.get(graph), mutated_inputs=frozenset(lowering.mutated_inputs),
                changes={
                    name: tuple(
                        BufferChange(operation, held.get((name, number + 1)))
                        for number, (_, operation) in enumerate(operations)
                    )
                    for name, operations in changed_by.items()
                },
            )
        )  # fmt: skip
        self._before = None
        self.notify(self.graphs[-1])

    def _joint_passes_begin(self, module: Any, *_: Any, **__: Any) -> None:
        self._joint_before.append(_copied(module) if self.recording and not self._joint_before else None)

    def _joint_passes_end(self, result: Any, *_: Any, **__: Any) -> None:
        before = self._joint_before.pop()
        if before is not None:
            self._joint[compile_id()] = PassedGraph(before, _copied(result))

    def _passes_begin(self, module: Any, *_: Any, **__: Any) -> None:
        if self.recording:
            self._before = _copied(module)


def _copied(module: Any) -> GraphModule:
    return GraphModule(module, copy.deepcopy(module.graph))


_ADDING = ("index_put", "index_add", "scatter", "embedding_dense_backward", "embedding_bag")


def adds_by_index(graph: LoweredGraph) -> bool:
    """Return whether an op of a graph may add several values to one place."""
    return any(part in str(node.target) for node in graph.module.graph.nodes for part in _ADDING)


def changed_arguments(node: Any) -> list[Any]:
    """Return the nodes that an op of ATen, or another one that torch has registered, changes in place."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    written = (
        node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    return [leaf for value in written for leaf in tree_leaves(value) if isinstance(leaf, Node)]


def _changing_operations(lowering: Any) -> dict[str, list[tuple[int, str]]]:
    """Return the operations that change each buffer in place: their positions and names."""
    changing: dict[str, list[tuple[int, str]]] = {}
    for place, operation in enumerate(lowering.operations):
        for name in operation.get_mutation_names() if hasattr(operation, "get_mutation_names") else ():
            changing.setdefault(name, []).append((place, operation.get_name()))
    return changing


def _place(result: Any) -> tuple[str | None, tuple[Any, Any, Any] | None]:
    """Return the name of the buffer that holds a lowered value, and how; None for a value without a buffer."""
    from torch._inductor import ir

    if not isinstance(result, ir.TensorBox):
        return None, None
    data, strides = result.data, None
    if isinstance(data, ir.ReinterpretView):
        strides = (data.layout.size, data.layout.stride, data.layout.offset)
        if not all(isinstance(number, int) or number.is_number for number in (*strides[0], *strides[1], strides[2])):
            return None, None
        strides = ([*map(int, strides[0])], [*map(int, strides[1])], int(strides[2]))
        data = data.data
    if not isinstance(data, ir.StorageBox) or not isinstance(data.data, ir.Buffer):
        return None, None
    return str(data.data.get_name()), strides
