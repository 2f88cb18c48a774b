"""Growth of rounding errors: from the kernel that makes one to the outputs and the gradients of its graph.

A graph is run twice in float64: from its inputs alone, and with each value that the compiled program stored in place
of the computed one. The difference of the two is the error that has accumulated at a node. The difference of a stored
value from that computed from the stored values before it is the local error of its kernel. Then one kernel's local
error after the other is added to the first run. What arrives at the outputs, and through saved values at the gradients,
is its share. Errors are relative: the norm of the error, by the norm of the exact value.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tcexplore.capture.fx_nodes import enclosing_modules
from tcexplore.numerics.graph_runs import LARGEST_BYTES, NodeRunner, byte_count, output_nodes, run_graph, saved_value
from tcexplore.numerics.kernel_replay import GraphValues

Values = Mapping[str, Any]
"""Values of the nodes of one graph by name."""


class ResultErrors(NamedTuple):
    """Accumulated errors of one output, or of one gradient."""

    number: int
    """Index among the outputs, or of the input that it is the gradient of."""
    node: str
    compiled: float
    eager: float | None


class KernelShare(NamedTuple):
    """The local error of a kernel, and what it becomes."""

    local: float
    output: float | None
    """Largest error at an output; None for a kernel of the backward, or if no output is known."""
    gradient: float | None


class ModuleErrors(NamedTuple):
    """Errors of a module's inputs and outputs."""

    path: str
    ops: int
    before: float
    """Largest error of its inputs."""
    after: float
    """Largest error of its outputs."""
    passed_on: float
    """The same if it computed exactly from these inputs."""


class NotMeasuredError(Exception):
    """The errors of a graph are not known; the message gives the reason."""


class ErrorGrowth:
    """The errors in one call of a graph."""

    def __init__(self, values: GraphValues, in_time: Callable[[], bool], forward: ErrorGrowth | None = None) -> None:
        """Run the graph. `forward` belongs to the graph whose backward this one is. Raise `NotMeasuredError`."""
        self.values = values
        self._in_time = in_time
        self._forward = forward
        self._runner = NodeRunner(values.graph.module, values, torch.float64)
        self._nodes = list(values.graph.module.graph.nodes)
        self._exact: dict[str, Any] = {}
        self._actual: dict[str, Any] = {}
        self._local: dict[str, Tensor] = {}
        """Local errors of stored values."""
        self._run()
        self.backward: ErrorGrowth | None = None
        if forward is not None:
            forward.backward = self

    def _run(self) -> None:
        arguments, size = iter(self.values.arguments), 0
        for node in self._nodes:
            name, stored = node.name, self._stored(node)
            if node.op == "placeholder":
                given = self._runner.given(next(arguments))
                self._exact[name] = self._saved(node, given)
                self._actual[name] = given
                continue
            exact = self._runner.value(node, self._exact)
            computed = self._runner.value(node, self._actual)
            if exact is None and stored is None:
                continue
            # A value that does not run in float64 is taken as exact.
            self._exact[name] = exact = stored if exact is None else exact
            self._actual[name] = stored if stored is not None else exact if computed is None else computed
            if stored is not None and isinstance(computed, Tensor) and _is_float(computed):
                self._local[name] = stored - computed
            size += 2 * byte_count(exact)
            if size > LARGEST_BYTES:
                raise NotMeasuredError(f"its values take more than {LARGEST_BYTES >> 30} GiB in float64")
            if not self._in_time():
                raise NotMeasuredError("the time for it was over")

    def _stored(self, node: Any) -> Tensor | None:
        """Return the value that a kernel stored, in float64; None if it is not known."""
        real = self.values.real.get(node)
        if node.op != "call_function" or not isinstance(real, Tensor) or node in self.values.mutated:
            return None
        stored: Tensor = self._runner.given(real)
        return stored

    def _saved(self, node: Any, given: Any) -> Any:
        """Return the exact value of an input: that of the node of the forward which was saved."""
        name = self._saved_names.get(node.name) if self._forward is not None else None
        return saved_value(given, self._forward._exact.get(name)) if self._forward and name else given

    @cached_property
    def _saved_names(self) -> dict[str, str]:
        """The nodes of the forward by the inputs of this graph. Passes may have replaced a node that is saved."""
        assert self._forward is not None
        graph = self._forward.values.graph
        names = {node.name: node.name for node in graph.module.graph.nodes if node.op == "placeholder"}
        pairs = zip(output_nodes(graph.before or graph.module), output_nodes(graph.module), strict=False)
        return names | {
            one.name: other.name
            for one, other in pairs
            if isinstance(one, torch.fx.Node) and isinstance(other, torch.fx.Node)
        }

    # ---- results

    def results(self) -> Iterator[ResultErrors]:
        """Yield the accumulated error of each output, compiled and in eager."""
        eager = run_graph(self.values.graph.module, self.values, None, self._in_time)
        for number, name in self._outputs():
            compiled = relative_error(self._actual.get(name), self._exact.get(name))
            of_eager = relative_error(self._runner.given(eager.get(name)), self._exact.get(name))
            if compiled is not None:
                yield ResultErrors(number, name, compiled, of_eager)

    def _outputs(self) -> Iterator[tuple[int, str]]:
        """Yield the index and the node of each output of the program: not of values that only the backward reads."""
        outputs = output_nodes(self.values.graph.module)
        if self.backward is not None:
            inputs = [node for node in self.backward._nodes if node.op == "placeholder"]
            saved = sum(not node.name.startswith("tangents_") for node in inputs)
            outputs = outputs[: max(1, len(outputs) - saved)]
        for number, node in enumerate(outputs):
            if isinstance(node, torch.fx.Node) and _is_float(self._exact.get(node.name)):
                yield number, node.name

    # ---- kernels

    def local_error(self, nodes: Iterable[Any]) -> float:
        """Return the local error of a kernel that stores these nodes."""
        errors = (self._local_error(node.name) for node in nodes)
        return max((error for error in errors if error is not None), default=0.0)

    def _local_error(self, name: str) -> float | None:
        if name not in self._local:
            return None
        stored = self._actual[name]
        return relative_error(stored, stored - self._local[name])

    def share(self, nodes: Iterable[Any]) -> KernelShare:
        """Add the local error of the kernel that stores these nodes to exact values; return what arrives."""
        nodes = list(nodes)
        errors = {node.name: self._local[node.name] for node in nodes if node.name in self._local}
        changed = self._changed(errors, {})
        here = self._largest(changed)
        local = self.local_error(nodes)
        if self._forward is not None:
            return KernelShare(local, None, here)
        there = None
        if self.backward is not None:
            names = self.backward._saved_names
            inputs = {name: changed[saved] for name, saved in names.items() if saved in changed}
            placeholders = {node.name for node in self.backward._nodes if node.op == "placeholder"}
            inputs = {name: value for name, value in inputs.items() if name in placeholders}
            there = self.backward._largest(self.backward._changed({}, inputs)) if inputs else 0.0
        return KernelShare(local, here, there)

    def _changed(self, errors: Mapping[str, Tensor], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that errors at some nodes, or other inputs, change."""
        changed: dict[str, Any] = dict(inputs)
        known = ChainMap(changed, self._exact)
        for node in self._nodes:
            if node.op == "placeholder" or node.name not in self._exact:
                continue
            value = None
            if any(each.name in changed for each in node.all_input_nodes):
                value = self._runner.value(node, known)
            if node.name in errors:
                value = (self._exact[node.name] if value is None else value) + _finite(errors[node.name])
            if value is not None:
                changed[node.name] = value
        return changed

    def _largest(self, changed: Values) -> float | None:
        errors = [
            relative_error(changed.get(name, self._exact[name]), self._exact[name]) for _, name in self._outputs()
        ]
        return max((error for error in errors if error is not None), default=None)

    # ---- modules

    def modules(self) -> Iterator[ModuleErrors]:
        """Yield the errors of each module whose inputs have any, in the order of the graph."""
        members: dict[str, list[Any]] = {}
        for node in self._nodes:
            if node.op == "call_function" and node.name in self._exact:
                for path in enclosing_modules(node):
                    members.setdefault(path, []).append(node)
        for path, nodes in members.items():
            if not self._in_time():
                return
            errors = self._module(path, nodes)
            if errors is not None:
                yield errors

    def _module(self, path: str, nodes: Sequence[Any]) -> ModuleErrors | None:
        own = set(nodes)
        inputs = {each.name for node in nodes for each in node.all_input_nodes if each not in own}
        outputs = [node.name for node in nodes if not own.issuperset(node.users)]
        before = self._largest_of(self._actual, inputs)
        if not before:
            return None
        passed: dict[str, Any] = {}
        known = ChainMap(passed, self._actual)
        for node in nodes:
            value = self._runner.value(node, known)
            passed[node.name] = self._actual[node.name] if value is None else value
        after, passed_on = self._largest_of(self._actual, outputs), self._largest_of(passed, outputs)
        if after is None or passed_on is None:
            return None
        return ModuleErrors(path, len(nodes), before, after, passed_on)

    def _largest_of(self, values: Values, names: Iterable[str]) -> float | None:
        errors = (relative_error(values.get(name), self._exact.get(name)) for name in names)
        return max((error for error in errors if error is not None), default=None)


def relative_error(value: Any, exact: Any) -> float | None:
    """Return the norm of the error by that of the exact value; None if this is zero, or no floating-point tensor.

    It is infinite if a value is not finite whose exact value is.
    """
    if not isinstance(value, Tensor) or not _is_float(exact) or value.shape != exact.shape or not exact.numel():
        return None
    norm = _norm(exact)
    if not norm:
        return None
    error = float((value - exact).norm())
    if math.isfinite(error):
        return error / norm
    lost = torch.isfinite(exact) & ~torch.isfinite(value)
    return math.inf if bool(lost.any()) else _norm(value - exact) / norm


def _norm(values: Tensor) -> float:
    """Return the norm of the values that are finite."""
    norm = float(values.norm())
    return norm if math.isfinite(norm) else float(_finite(values).norm())


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
