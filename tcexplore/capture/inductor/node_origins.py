"""Origins of AOT and post-grad nodes: the nodes that a pass replaced, the Dynamo nodes, and the user's lines.

Inductor's passes create some nodes without a stack trace. When a pass replaces a no-op node by an existing node, torch
overwrites the metadata of the latter with that of the former.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_frames
from tcexplore.capture.fx_nodes import fx_node, module_path, node_name, root_sources
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import NodeNames, UserFiles
from tcexplore.capture.user_ops import user_op
from tcexplore.events import FxNode, Location, UserOp
from tcexplore.torch_text.dynamo_names import RUNS_OP

_FACT = "lines of nodes that passes create"
_REPLACED = "tcexplore_replaced"
_ORIGINAL_META = "tcexplore_original_meta:"
_PROVENANCE_KEYS = (
    "stack_trace", "from_node", "source_fn_stack", "fwd_source_fn_stack", "nn_module_stack", "original_aten",
)  # fmt: skip
_PATTERN_ENTRIES = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")


def record_replacements(hooks: Hooks) -> None:
    """Record in each new node which nodes it replaces, and save metadata before torch overwrites it."""
    before: list[set[Any]] = []

    def pattern_begins(_entry: Any, _match: Any, graph: Any, *_: Any, **__: Any) -> None:
        before.append(_calls(graph))

    def pattern_applied(_result: Any, _entry: Any, match: Any, graph: Any, *_: Any, **__: Any) -> None:
        for node in _calls(graph) - before.pop():
            node.meta[_REPLACED] = tuple(match.nodes)

    def uses_replaced(old: Any, new: Any, *_: Any, **__: Any) -> None:
        # `new` is a number if torch specializes a symbol.
        if getattr(new, "op", "") != "call_function":
            return
        if new.stack_trace:
            # The node's name is part of the key: the metadata that overwrites this may hold the other node's entry.
            original = {key: new.meta[key] for key in _PROVENANCE_KEYS if key in new.meta}
            new.meta.setdefault(_ORIGINAL_META + new.name, original)
        elif old not in new.meta.get(_REPLACED, ()):
            new.meta[_REPLACED] = (*new.meta.get(_REPLACED, ()), old)

    for entry in _PATTERN_ENTRIES:
        symbol = f"torch._inductor.pattern_matcher:{entry}.apply"
        hooks.watch(_FACT, symbol, before=pattern_begins, after=pattern_applied)
    hooks.watch(_FACT, "torch.fx.node:Node.replace_all_uses_with", before=uses_replaced)


def _calls(graph: Any) -> set[Any]:
    return {node for node in graph.nodes if node.op == "call_function"}


class _OriginalNode:
    """A node with the metadata that it had before a pass overwrote it."""

    def __init__(self, node: Any, original: dict[str, Any]) -> None:
        self._node = node
        self.meta = {**{key: value for key, value in node.meta.items() if key not in _PROVENANCE_KEYS}, **original}
        self.stack_trace = original.get("stack_trace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def original_node(node: Any) -> Any:
    """Return the node with its original metadata."""
    original = node.meta.get(_ORIGINAL_META + node.name)
    return node if original is None else _OriginalNode(node, original)


def source_nodes(node: Any) -> tuple[Any, ...]:
    """Return the nodes that know a node's origin: the node itself, or those that it replaced."""
    sources, pending, seen = {}, [node], set()
    while pending:
        current = pending.pop(0)
        predecessors = () if current.stack_trace and not _makes_seeds(current) else _predecessors(current)
        if not predecessors:
            sources[current] = original_node(current)
        elif current not in seen:
            seen.add(current)
            pending.extend(predecessors)
    return tuple(sources.values())


def _predecessors(node: Any) -> tuple[Any, ...]:
    """Return the nodes that a node replaces.

    AOTAutograd ends a graph with a `copy_` for each mutated input: its origin is that of the copied value. It gives no
    stack to an op that sets the state of random numbers around another one: what is taken from its result has one.
    Inductor makes the seeds of all random ops at once: they are for those that read them.
    """
    if _makes_seeds(node):
        return tuple(node.users)
    if node.op == "call_function" and getattr(node.target, "__name__", "") == "copy_.default":
        return tuple(node.args[1:2])
    if op_inside(node) is not None:
        return tuple(user for user in node.users if user.target is operator.getitem and user.stack_trace)
    return tuple(node.meta.get(_REPLACED, ()))


def _makes_seeds(node: Any) -> bool:
    """Return whether a node makes the seeds of several random ops. torch 2.15 may give it the stack of one of them."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "inductor_seeds.default"


def op_inside(node: Any) -> Any:
    """Return the op that a node runs with a state of random numbers (`graphsafe_run_with_rng_state`); None if none."""
    if node.op != "call_function" or not getattr(node.target, "__name__", "").endswith(RUNS_OP):
        return None
    return next((value for value in node.args if isinstance(value, torch._ops.OpOverload)), None)


def aten_node(node: Any, user_files: UserFiles) -> FxNode:
    """Return the record of an AOT or post-grad node with its `origins`.

    `location` is None for a node that replaced several nodes of different lines.
    """
    record = fx_node(original_node(node), user_files)
    if node.op == "placeholder":
        return record
    own = record.location if not _makes_seeds(node) else None
    places = (own,) if own else user_lines(node, user_files)
    # A pass may give a new node the stack trace of one that it replaces, but not what that descends from.
    origins = _origins_of(source_nodes(node), user_files)
    origins = origins or _origins_of(map(original_node, _predecessors(node)), user_files)
    return replace(
        record,
        origins=origins,
        location=places[0] if len(places) == 1 else None,
    )


def _origins_of(nodes: Iterable[Any], user_files: UserFiles) -> tuple[str, ...]:
    """Return the names of the Dynamo nodes that any of the nodes comes from."""
    return tuple(dict.fromkeys(name for node in nodes for name in _origins(node, user_files)))


def user_lines(node: Any, user_files: UserFiles) -> tuple[Location, ...]:
    """Return the user's innermost line of a node, or the lines of the nodes that it replaced.

    An input has no line: code generated for it (a copy in another layout) belongs to the nodes that use it.
    """
    if node.op == "placeholder":
        return tuple(dict.fromkeys(line for user in node.users for line in _source_lines(user, user_files)))
    return _source_lines(node, user_files)


def _source_lines(node: Any, user_files: UserFiles) -> tuple[Location, ...]:
    stacks = (user_frames(source, user_files) for source in source_nodes(node))
    return tuple(dict.fromkeys(frames[-1] for frames in stacks if frames))


def _origins(node: Any, user_files: UserFiles) -> tuple[str, ...]:
    """Return the names of the Dynamo nodes that a node comes from.

    A backward node does not descend from a Dynamo node. torch stores the source functions of the forward node whose
    gradient it computes with it, under the first name of that Dynamo node.
    """
    dynamo = user_files.node_names.get(current_compile_id() or "")
    functions = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    module = module_path(node.meta)
    names = dict.fromkeys(_dynamo_name(source, dynamo, module) for source in root_sources(node.meta))
    roots = tuple(name for name in names if name and (dynamo is None or name in dynamo.all))
    if not functions or (roots and "fwd_source_fn_stack" not in node.meta):
        return roots
    name = str(functions[-1][0])
    return (_of_module(dynamo.by_first.get(name, {}), module, name) if dynamo else name,)


def _of_module(names: Mapping[str | None, str], module: str | None, unknown: str) -> str:
    """Return the name of a module's node among nodes that had one name in their graphs, else that of the only one."""
    return names.get(module) or (next(iter(names.values())) if len(names) == 1 else unknown)


def _dynamo_name(source: Any, dynamo: NodeNames | None, module: str | None) -> str:
    """Return the name of the Dynamo node that torch recorded, which may be in a subgraph, or in a part of the graph.

    AOTAutograd puts a subgraph that is called once into the graph around it. Then torch records the names in the
    subgraph as if they were of that graph, and the module tells which subgraph it was.
    """
    if dynamo is None:
        return str(source.name)
    graph = getattr(source, "graph_id", None)
    if (part := dynamo.parts.get(graph)) is not None:
        return part.get(source.name, "")
    if path := dynamo.subgraph_paths.get(graph):
        return node_name(path, source.name)
    return dynamo.by_name.get(source.name, {}).get(module, source.name)


class PostGradNodes:
    """The post-grad nodes of one graph by name.

    Results are unique and in graph order; a name of another graph is ignored.
    """

    def __init__(self, graph: Any, user_files: UserFiles, path: str = "") -> None:
        """Set up; `path` is that of a subgraph, with which the names of its nodes begin."""
        self._path = path
        self._nodes = {node.name: node for node in graph.nodes}
        self._user_files = user_files
        self._lines: dict[str, tuple[Location, ...]] = {}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self._nodes)}

    def names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that are nodes of this graph, as `AtenGraph` has them."""
        return tuple(node_name(self._path, name) for name in self._sort(names))

    def _sort(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({name for name in names if name in self._nodes}, key=self._order.__getitem__))

    def ops(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ATen ops (`aten.gelu`) that the nodes were decomposed from."""
        nodes = (original_node(self._nodes[name]) for name in self._sort(names))
        targets = (node.meta.get("original_aten") or op_inside(node) or node.target for node in nodes)
        return tuple(dict.fromkeys(map(_op_name, targets)))

    def targets(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ops that the nodes call (`aten.addmm`)."""
        nodes = [self._nodes[name] for name in self._sort(names)]
        return tuple(dict.fromkeys(_op_name(op_inside(node) or node.target) for node in nodes))

    def called_name(self, names: Iterable[str], name: str) -> str:
        """Return the name of a library call of the nodes: that of the op which a call named `name` runs inside."""
        inside = next(filter(None, (op_inside(self._nodes[node]) for node in self._sort(names))), None)
        return name if inside is None else f"torch.ops.{inside}"

    def user_op(self, names: Iterable[str]) -> UserOp | None:
        """Return the user's kernel or op that one of the nodes calls."""
        ops = (user_op(self._nodes[name]) for name in self._sort(names))
        return next((op for op in ops if op is not None), None)

    def dtypes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the floating-point and complex types that the nodes read."""
        values = (read.meta.get("val") for name in self._sort(names) for read in self._nodes[name].all_input_nodes)
        dtypes = (getattr(value, "dtype", None) for value in values)
        inexact = (dtype for dtype in dtypes if dtype is not None and (dtype.is_floating_point or dtype.is_complex))
        return tuple(dict.fromkeys(str(dtype).rpartition(".")[2] for dtype in inexact))

    def lines(self, names: Iterable[str]) -> tuple[Location, ...]:
        """Return the user's innermost lines."""
        return tuple(dict.fromkeys(line for name in self._sort(names) for line in self._lines_of(name)))

    def _lines_of(self, name: str) -> tuple[Location, ...]:
        if name not in self._lines:
            self._lines[name] = user_lines(self._nodes[name], self._user_files)
        return self._lines[name]


def _op_name(op: Any) -> str:
    packet = getattr(op, "overloadpacket", None)
    return str(packet) if packet is not None else str(getattr(op, "__name__", op))
