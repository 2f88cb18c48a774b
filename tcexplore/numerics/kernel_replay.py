"""Replay of the post-grad nodes of a kernel, from the inputs that it really got."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map

from tcexplore.events import KernelCall
from tcexplore.numerics.error_bounds import CASTS, OpCall, bound_of
from tcexplore.numerics.lowered_graphs import HeldNode, LoweredGraph, changed_arguments
from tcexplore.numerics.replayed_values import LOW, Value, all_finite, op_name, run_exactly, run_op, smallest, unit
from tcexplore.numerics.wrapper_values import WrapperCall, WrittenValue


class NotReplayedError(Exception):
    """A node cannot be run alone; the message gives the reason."""


class GraphValues:
    """The real values of a graph's nodes in one call, and the replay of nodes from them."""

    def __init__(self, graph: LoweredGraph, call: WrapperCall, kernels: Sequence[KernelCall] = ()) -> None:
        """`kernels` has the calls of kernels in their order."""
        self.graph = graph
        self.real: dict[Any, Any] = {}
        """Values of inputs and of buffers, by node."""
        self.arguments = call.arguments
        self.mutated = mutated_nodes(graph.module)
        placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
        self.real |= dict(zip(placeholders, call.arguments, strict=False))
        for node in graph.module.graph.nodes:
            if node.op == "get_attr":
                self.real[node] = _attribute(graph.module, node.target)
        self.held: dict[str, Any] = {}
        """The node whose value each buffer has, and each op that changes one in place, right after its kernel."""
        self.varied: dict[Any, torch.Tensor] = {}
        """Values that a second call gave from the same inputs, where they are others."""
        self._call = call
        self._written: dict[str, WrittenValue] = {}
        """What each op that changes a buffer in place wrote, by the name of the op."""
        for name, written, held in _held_values(graph, call, kernels):
            value = _placed(call.written[written.buffer][written.number], held)
            if tuple(value.shape) != _shape(held.node):
                continue
            self.real[held.node] = value
            self.held[name] = held.node
            self._written[name] = written
            if written in call.varied:
                self.varied[held.node] = _placed(call.varied[written], held)
        self.computed_again: dict[Any, frozenset[Any]] = {}
        """The nodes that the kernel of an output computes itself, though another kernel stores their values.

        Inductor copies the ops of a value that it has not decided to store yet into the kernels that use it.
        """
        for kernel in kernels:
            again = frozenset(self._computed_again(kernel))
            self.computed_again |= {self.held[name]: again for name in kernel.buffers if name in self.held}

    def repeats(self, kernel: KernelCall) -> bool | None:
        """Return whether a kernel gave the same values twice; None if that is not known."""
        return self._call.repeats(self._written_by(kernel))

    def _written_by(self, kernel: KernelCall) -> list[WrittenValue]:
        return [self._written.get(name, WrittenValue(name, 0)) for name in kernel.buffers]

    def _computed_again(self, kernel: KernelCall) -> Iterator[Any]:
        named = self._call.named_with(self._written_by(kernel))
        if named is None:
            return
        for name, node in self.held.items():
            if node.name in kernel.nodes and name not in kernel.buffers and self._written[name].buffer not in named:
                yield node

    def replay(self, outputs: Sequence[Any], *, only_eager: bool = False, eager: Replay | None = None) -> Replay:
        """Replay the nodes of a kernel with these outputs; `only_eager` without float64 and bounds.

        `eager` is a replay of the same outputs, whose eager values are taken.
        """
        return Replay(self, outputs, only_eager=only_eager, eager=eager)


def _placed(value: torch.Tensor, held: HeldNode) -> torch.Tensor:
    return value if held.strides is None else torch.as_strided(value, *held.strides)


def _held_values(
    graph: LoweredGraph, call: WrapperCall, kernels: Sequence[KernelCall]
) -> Iterator[tuple[str, WrittenValue, HeldNode]]:
    """Yield the name of a buffer, or of an op that changes one; the value that it wrote; the node that has this value.

    A kernel may write a buffer and change it at once: then only the value after the last change is known.
    """
    for name, values in call.written.items():
        first = graph.nodes.get(name)
        changes = graph.changes.get(name, ())
        if not changes:
            if first is not None:
                yield name, WrittenValue(name, 0), first
            continue
        steps = [(name, first), *changes]
        written = [[step for step in steps if step[0] in kernel.buffers] for kernel in kernels]
        last = [of_kernel[-1] for of_kernel in written if of_kernel]
        # A change that leaves the values as they were is not recorded.
        if len(last) == len(values):
            for number, (step, held) in enumerate(last):
                if held is not None:
                    yield step, WrittenValue(name, number), held


def _shape(node: Any) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    return tuple(int(size) if not isinstance(size, torch.SymInt) else size.node.hint for size in value.shape)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


class Replay:
    """The values of the nodes between a kernel's inputs and its outputs."""

    def __init__(
        self, values: GraphValues, outputs: Sequence[Any], *, only_eager: bool = False, eager: Replay | None = None
    ) -> None:
        self._values = values
        self._eager = {} if eager is None else eager.values
        self._only_eager = only_eager
        self._own = frozenset(outputs).union(*(values.computed_again.get(node, ()) for node in outputs))
        self.values: dict[Any, Value] = {}
        """In the order of the graph; inputs included."""
        self.failed: dict[Any, str] = {}
        """Outputs that cannot be replayed, with the reason."""
        with torch.no_grad():
            for node in needed(outputs, self._is_input):
                self._run(node)
        for node in outputs:
            if node not in self.values:
                self.failed.setdefault(node, "it depends on a value that is not known")

    def _is_input(self, node: Any) -> bool:
        return node in self._values.real and node not in self._own

    @property
    def inputs(self) -> list[Any]:
        """The nodes whose real values the kernel reads, or that do not run alone."""
        return [node for node in self.values if self._is_input(node) or node in self.failed]

    @property
    def given(self) -> list[Any]:
        """The values of the inputs."""
        return [self.values[node].eager for node in self.inputs]

    @property
    def computed(self) -> list[Any]:
        """The nodes that were replayed."""
        return [node for node in self.values if not self._is_input(node) and node not in self.failed]

    def _run(self, node: Any) -> None:
        if node in self._values.mutated and node not in self._own and node.op != "placeholder":
            self.failed[node] = "a later op changes it in place"
            return
        if self._is_input(node):
            self.values[node] = self._given(node)
            return
        try:
            if any(each not in self.values for each in node.all_input_nodes):
                raise NotReplayedError(next(filter(None, self.failed.values()), "an input is not known"))
            self.values[node] = self._evaluated(node)
        except Exception as error:  # noqa: BLE001  a node that does not run alone costs the judgement of its kernel only
            self.failed[node] = str(error).strip().partition("\n")[0] or type(error).__name__
            if node in self._values.real:
                self.values[node] = self._given(node)

    def _given(self, node: Any) -> Value:
        value = self._values.real[node]
        return Value(value, None) if self._only_eager else Value.given(value)

    def _evaluated(self, node: Any) -> Value:
        if node.op != "call_function":
            raise NotReplayedError(f"a node of kind {node.op}")
        if is_random(node):
            raise NotReplayedError("random numbers")
        if node.target is operator.getitem:
            return self._item(node)
        values = self.values

        def replaced(how: str) -> Any:
            return map_arg((node.args, node.kwargs), lambda each: getattr(values[each], how))

        known = self._eager.get(node)
        eager = run_op(node.target, *replaced("eager")) if known is None else known.eager
        if self._only_eager:
            return Value(eager, None)
        exact_args, exact_kwargs = replaced("exact")
        exact = run_exactly(node.target, exact_args, exact_kwargs)
        single_args, single_kwargs = replaced("single")
        single = run_exactly(node.target, single_args, single_kwargs, torch.float32)
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: values[each])
        return Value(eager, exact, single, self._bound(node, args, kwargs, exact, eager))

    def _item(self, node: Any) -> Value:
        of, index = self.values[node.args[0]], node.args[1]
        if self._only_eager:
            return Value(of.eager[index], None)
        bound = of.bound[index] if isinstance(of.bound, list | tuple) else None
        if of.exact[index] is None:
            raise NotReplayedError("a state of random numbers, or lengths")
        return Value(of.eager[index], of.exact[index], of.single[index], bound)

    def _bound(self, node: Any, args: Any, kwargs: Any, exact: Any, eager: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves(eager) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            return None
        inexact = next((leaf.dtype for leaf in tensors if leaf.dtype.is_floating_point), torch.float32)
        low = inexact in LOW
        cast = op_name(node.target) in CASTS
        stored = unit(inexact) if low else 0.0
        arithmetic = unit(torch.float32 if low else inexact)
        if cast:
            source = args[0].eager
            narrows = (
                isinstance(source, torch.Tensor)
                and source.dtype.is_floating_point
                and (torch.finfo(source.dtype).eps < torch.finfo(inexact).eps)
            )
            stored = unit(inexact) if narrows else 0.0
        op = OpCall(node.target, args, kwargs, exact, eager, arithmetic, stored)
        bound = bound_of(op)
        rounds = low and not cast and (node in self._own or node in self._values.real or is_extern(node))

        def complete(leaf: Any, value: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.dtype.is_floating_point or leaf.dtype is torch.bool:
                return leaf
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return leaf
            magnitude = value.abs()
            if rounds:
                leaf = leaf + stored * magnitude
            # Digits are lost close to zero, not at zero.
            close = magnitude < torch.finfo(inexact).tiny / torch.finfo(inexact).eps
            if bool(close.any()):
                leaf = leaf + torch.where(close & (value != 0), smallest(inexact), 0.0)
            return leaf if all_finite(leaf) else torch.nan_to_num(leaf, nan=math.inf, posinf=math.inf)

        if isinstance(bound, list | tuple):
            return [complete(leaf, value) for leaf, value in zip(bound, exact, strict=False)]
        return complete(bound, exact) if isinstance(bound, torch.Tensor) else bound


def mutated_nodes(module: Any) -> frozenset[Any]:
    """Return the nodes whose value a later node changes in place, and that are read afterwards: not known then.

    Most in-place ops return their result, and later nodes read that. But a copy into a view changes what it views, and
    custom ops and Triton kernels return nothing.
    """
    mutated: set[Any] = set()
    aliases: dict[Any, list[Any]] = {}
    """Each node with the nodes that share its memory, so far."""
    changed: dict[int, list[Any]] = {}
    """Such nodes that were changed in place, by the id of their list."""
    for node in module.graph.nodes:
        for each in node.all_input_nodes:
            mutated.update(changed.get(id(aliases.get(each)), ()))
        if node.op == "call_function" and "mutation" in op_name(node.target):
            mutated.update(node.all_input_nodes)
        own = [node]
        for each in changed_arguments(node):
            shared = aliases.get(each, [each])
            if node.target._schema.returns:
                changed[id(shared)] = list(shared)
            else:
                mutated.update(shared)
        if _is_view(node) and isinstance(node.args[0], Node):
            own = aliases.setdefault(node.args[0], [node.args[0]])
            own.append(node)
        aliases[node] = own
    return frozenset(mutated)


def _is_view(node: Any) -> bool:
    """Return whether a node may share the memory of its first input."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.arguments or not node.args:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and not alias.is_write


def needed(outputs: Iterable[Any], is_input: Any) -> list[Any]:
    """Return the nodes that compute `outputs` from inputs, inputs included, in the order of the graph."""
    seen: dict[Any, None] = {}
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen[node] = None
        if not is_input(node):
            pending.extend(node.all_input_nodes)
    order = {node: index for index, node in enumerate(next(iter(seen)).graph.nodes)} if seen else {}
    return sorted(seen, key=order.__getitem__)


_RANDOM = ("inductor_random", "inductor_randint", "inductor_seeds", "inductor_seed", "inductor_lookup_seed",
           "inductor_reserve_rng_state")  # fmt: skip


def is_random(node: Any) -> bool:
    """Return whether a node draws random numbers."""
    name = op_name(node.target)
    tags = getattr(node.target, "tags", ())
    draws = torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node)
    return name.rpartition(".")[2] in _RANDOM or draws


def _drops_nothing(node: Any) -> bool:
    """Return whether an op that may drop elements at random, such as attention, drops none."""
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, 0.0)
            return bool(given == 0)
    return False


_EXTERN = (
    "mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward", "_scaled_dot_product", "_linear_pointwise",
    "_convolution_pointwise", "addmv", "mkl_linear", "_int_mm",
)  # fmt: skip


def is_extern(node: Any) -> bool:
    """Return whether a library computes the node as a whole, and so rounds its result to its dtype."""
    name = op_name(node.target)
    return any(part in name for part in _EXTERN)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a value."""
    yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def copied(value: Any) -> Any:
    """Return a value with its tensors copied."""
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)
