"""The program whose calls are compared, and what one of its calls returns and changes."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from tcexplore.accuracy.tensor_comparison import CLOSE, IDENTICAL, ComparedValue, compare_value, rms
from tcexplore.capture.entry import Call
from tcexplore.capture.python_state import PythonState, named_leaves, tensors_inside
from tcexplore.capture.tensor_descriptions import dtype_text

Function = Callable[..., Any]

ROUNDINGS = 2
"""Roundings by which two computations of one value differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program, eager and compiled, and the functions to call it."""

    eager: Function
    compiled: Function
    calls: tuple[Call, ...]
    call: Callable[[Function, Call], Any]
    """Makes one call as the run does, with its backward pass for `train`, and returns the output."""
    restore: Callable[[], object]
    """Sets inputs, gradients and state back to those before the call."""
    seed: Callable[[], None]
    """Seeds every random generator."""
    train: bool
    module: torch.nn.Module | None = None
    """The module with the parameters, also around those that a function names; None for a function without any."""
    unrandomized: Callable[[Callable[[Function], None]], Function] | None = None
    """Recompiles so that random numbers match eager's, and passes the result to its argument for a warm-up. None if
    compiled code already draws the same random numbers."""
    state: PythonState | None = None
    """The Python state, if calls are to be compared in it too."""
    compile_for_mode: Callable[[bool], Function] | None = None
    """Compiles again for calls in another mode, of which the argument tells whether they compute gradients. None if
    none are compared."""


def input_tensors(call: Call) -> dict[str, torch.Tensor]:
    """Return the tensors in a call's arguments by name: `input[0]`, `input[1]['mask']`, `mask`."""
    positional = tensors_by_name(call.args, "input")
    return {**positional, **{k: v for name, arg in call.kwargs.items() for k, v in tensors_by_name(arg, name).items()}}


def tensors_by_name(value: Any, name: str) -> dict[str, torch.Tensor]:
    """Return every tensor in nested containers; a bare tensor has the plain name."""
    return {path: strided(leaf) for path, leaf in named_leaves(value, name) if isinstance(leaf, torch.Tensor)}


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a nested tensor, a sparse tensor as a dense one, or the tensor itself."""
    if tensor.is_nested:
        return tensor.values()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return the address of a tensor's memory, or None if it has none (sparse, meta, empty)."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None


def size_of(tensors: Iterator[torch.Tensor] | list[torch.Tensor]) -> int:
    """Return the bytes of these tensors' elements, counting each tensor once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(t): t for t in tensors}.values())


SIMPLE = (bool, int, float, complex, str, type(None))


@dataclass(slots=True)
class Observation:
    """The results and side effects of one call, by name."""

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    changed: dict[str, torch.Tensor] = field(default_factory=dict)
    """Inputs and buffers whose values the call changed."""
    unchanged: dict[str, torch.Tensor] = field(default_factory=dict)
    """Floating-point inputs and buffers with the same values as before the call, which may have rewritten them."""
    plain: dict[str, Any] = field(default_factory=dict)
    """Outputs that are not tensors."""
    aliases: dict[str, str] = field(default_factory=dict)
    """For an output, the input or earlier output whose memory it shares."""
    random: bool = False
    """Whether the call drew random numbers."""
    generators: list[Any] = field(default_factory=list)
    """States of the random generators after the call."""
    state: dict[str, Any] = field(default_factory=dict)
    """Python state that the call changed, by path."""
    python_floats: set[str] = field(default_factory=set)
    """Names of the Python floats among the tensors: float64 tensors with the tolerance of float32."""
    numbers: dict[str, float | torch.Tensor] = field(default_factory=dict)
    """Numbers and tensors with one element in the Python state after the call, by path."""

    @property
    def changes_state(self) -> bool:
        """Whether the call changed a buffer, a parameter or Python state."""
        return bool(self.state) or any(not name.startswith("input") for name in self.changed)


def observe(
    subject: Subject, function: Function, call: Call, module: torch.nn.Module | None, *, undo: bool = True
) -> Observation:
    """Make one call from a fresh seed, and undo its side effects on inputs, with `undo` also those on other state.

    Raises the exceptions of user code. `module` belongs to `function`: it is the subject's module or its float64 copy.
    """
    inputs, python = input_tensors(call), subject.state
    writable = {**inputs, **_buffers(module)}
    if python is not None:
        state_before = python.values()
        writable |= {**_small_parameters(module), **_without(state_before.tensors, inputs)}
    before = {name: _copy(tensor) for name, tensor in writable.items()}
    of_graphs = {name for name, tensor in writable.items() if tensor.grad_fn is not None}
    parameters = {} if module is None or subject.train else dict(module.named_parameters())
    versions = {name: parameter._version for name, parameter in parameters.items()}
    if subject.train or parameters:
        _clear_gradients(module, call)  # a script may have left some
    subject.seed()
    generators = _generator_states()
    written: dict[str, torch.Tensor] | None = None
    try:
        observation = _observe_outputs(subject.call(function, call), inputs)
        observation.generators = _generator_states()
        observation.random = not _same_states(generators, observation.generators)
        written = dict(_changed(writable, before))
        observation.changed = {name: _copy(tensor) for name, tensor in written.items()}
        observation.unchanged = {
            name: tensor
            for name, tensor in before.items()
            if tensor.is_floating_point() and name not in observation.changed
        }
        if python is not None:
            _observe_state(observation, python, state_before.leaves, module, writable, inputs)
        # Those of a step with its backward and its optimizer inside; `subject.restore` sets the parameters back.
        observation.changed |= {
            f"parameter {name}": _copy(parameter)
            for name, parameter in parameters.items()
            if parameter._version != versions[name]
        }
        if subject.train or parameters:
            observation.gradients = {f"gradient of {name}": _copy(grad) for name, grad in _gradients(module, call)}
    finally:
        if written is None:  # the call failed
            written = dict(_changed(writable, before))
        # A write of the same values leaves no difference but the graph of the call.
        joined = {name: t for name, t in writable.items() if t.grad_fn is not None and name not in of_graphs}
        written |= joined
        restore_tensors({name: tensor for name, tensor in written.items() if undo or name in inputs}, before)
        if python is not None and undo:
            python.restore()
        subject.restore()
        _clear_gradients(module, call)
    return observation


def _observe_state(
    observation: Observation,
    python: PythonState,
    before: dict[str, Any],
    module: torch.nn.Module | None,
    writable: dict[str, torch.Tensor],
    inputs: dict[str, torch.Tensor],
) -> None:
    """Add Python state that the call changed, and tensors that it put in the place of others."""
    missing = object()
    after, tensors, single = python.values()
    observation.state = {
        path: after.get(path, "missing")
        for path in before.keys() | after.keys()
        if not _same_leaves(before.get(path, missing), after.get(path, missing))
    }
    observation.numbers = {path: leaf for path, leaf in after.items() if isinstance(leaf, int | float)}
    observation.numbers |= {path: _copy(tensor) for path, tensor in single.items()}
    for name, tensor in {**_buffers(module), **_without(tensors, inputs)}.items():
        if writable.get(name) is not tensor:
            observation.changed[name] = _copy(tensor)


def output_leaves(output: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of an output with their paths, and the tensors inside of objects that pytree does not know."""
    for name, leaf in named_leaves(output, "output"):
        if isinstance(leaf, (torch.Tensor, *SIMPLE)):
            yield name, leaf
        else:
            for number, tensor in enumerate(tensors_inside(leaf)):
                yield f"{name}, tensor {number} in it", tensor


def _observe_outputs(output: Any, inputs: dict[str, torch.Tensor]) -> Observation:
    observation = Observation()
    owners = {storage_of(tensor): name for name, tensor in reversed(inputs.items()) if storage_of(tensor)}
    for name, leaf in output_leaves(output):
        if isinstance(leaf, torch.Tensor):
            observation.outputs[name] = _copy(strided(leaf))
            storage = storage_of(leaf)
            if storage in owners:
                observation.aliases[name] = owners[storage]
            elif storage is not None:
                owners[storage] = name
        else:
            observation.plain[name] = leaf
    return observation


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a detached copy with the same strides; a later call may reuse the original's memory."""
    with torch.no_grad():
        return tensor.detach().clone()


def _buffers(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    return {} if module is None else {f"buffer {name}": strided(buffer) for name, buffer in module.named_buffers()}


def _without(tensors: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of the state without the inputs, which are global in most files."""
    known = set(map(id, inputs.values()))
    return {path: tensor for path, tensor in tensors.items() if id(tensor) not in known}


SMALL_BYTES = 64 << 20
"""Total size of parameters up to which writes to them are compared."""


def _small_parameters(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    parameters = {} if module is None else {f"parameter {name}": p for name, p in module.named_parameters()}
    return parameters if size_of(list(parameters.values())) <= SMALL_BYTES else {}


def _gradients(module: torch.nn.Module | None, call: Call) -> list[tuple[str, torch.Tensor]]:
    parameters = [] if module is None else list(module.named_parameters())
    tensors = [*parameters, *input_tensors(call).items()]
    return [(name, tensor.grad) for name, tensor in tensors if tensor.is_leaf and tensor.grad is not None]


def _clear_gradients(module: torch.nn.Module | None, call: Call) -> None:
    for tensor in (*(module.parameters() if module is not None else ()), *input_tensors(call).values()):
        if tensor.is_leaf:
            tensor.grad = None


def _changed(tensors: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Compare values, since batch norm on a CPU writes running statistics without incrementing their version."""
    for name, tensor in tensors.items():
        if not _same_values(tensor.detach(), before[name]):
            yield name, tensor


def _same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same values; NaN equals NaN."""
    return torch.equal(one, other) or bool(
        one.shape == other.shape and one.is_floating_point() and torch.allclose(one, other, 0, 0, equal_nan=True)
    )


def restore_tensors(written: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> None:
    """Set tensors back to their values in `before`, out of the graph of the calls that wrote them."""
    for name, tensor in written.items():
        with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
            if tensor.shape != before[name].shape:
                tensor.as_strided_(before[name].shape, before[name].stride())
            tensor.copy_(before[name])
            if tensor.grad_fn is not None and not tensor._is_view():
                # A buffer that was updated with gradients would keep the graph of this call.
                tensor.detach_()


def _generator_states() -> list[Any]:
    states: list[Any] = [torch.get_rng_state(), random.getstate()]
    if (numpy := sys.modules.get("numpy")) is not None:
        states.append(repr(numpy.random.get_state()))
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return states


def _same_states(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


class ObservationDiff(NamedTuple):
    """A difference."""

    text: str
    wrong: bool
    """Whether the caller gets a different result, not only a different layout."""


def diff_observations(
    first: Observation, second: Observation, sides: tuple[str, str] = ("eagerly", "compiled")
) -> Iterator[ObservationDiff]:
    """Yield every difference in presence, dtype, shape, device, stride, aliasing and plain values.

    `sides` are the names of the two observations in the sentences.
    """
    for kind in ("outputs", "gradients", "changed"):
        one, other = getattr(first, kind), getattr(second, kind)
        yield from _missing(kind, one, other, sides)
        for name in one.keys() & other.keys():
            yield from _diff_tensors(name, one[name], other[name], sides)
    for name, value in first.plain.items():
        if not _same_leaves(second.plain.get(name), value):
            other = (
                repr(second.plain[name]) if name in second.plain else "a tensor" if name in second.outputs else "gone"
            )
            yield ObservationDiff(f"{name} is {value!r} {sides[0]}, {other} {sides[1]}", True)
    for path in sorted(first.state.keys() | second.state.keys()):
        one, other = (side.state.get(path, "unchanged") for side in (first, second))
        if not _same_leaves(one, other):
            yield ObservationDiff(f"{path} becomes {one!r:.80} {sides[0]}, {other!r:.80} {sides[1]}", True)
    for name in first.outputs.keys() & second.outputs.keys():
        yield from _diff_aliases(name, first.aliases.get(name), second.aliases.get(name), sides)


def fill_rewritten(first: Observation, second: Observation) -> None:
    """Count a tensor as changed by both sides if only one changed it, and by no more than rounding.

    A side that writes the values that a tensor already has, such as a cache after its last call, changes nothing.
    """
    for one, other in ((first, second), (second, first)):
        for name in one.changed.keys() - other.changed.keys():
            unchanged = other.unchanged.get(name)
            if unchanged is not None and comparable(one.changed[name], unchanged):
                # Only what was written: most of a cache stays as it is.
                written = one.changed[name] != unchanged
                new, old = one.changed[name][written], unchanged[written]
                compared = compare_value(ComparedValue(name, new, old))
                if compared.verdict in (IDENTICAL, CLOSE) or _differ_by_roundings(new, old):
                    other.changed[name] = unchanged


def _differ_by_roundings(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether values differ by no more than a few roundings of their type: an update changes them by more."""
    if not bool(torch.isfinite(one).all() and torch.isfinite(other).all()):
        return False
    wide = one.to(torch.float64)
    return rms(wide - other) <= ROUNDINGS * float(torch.finfo(one.dtype).eps) * rms(wide)


def compare_as_tensors(first: Observation, second: Observation) -> None:
    """Turn floats that both sides have into tensors, so that they are compared with the tolerance of tensors.

    In the Python state, also a number that is a tensor with one element on the other side.
    """
    for name in first.plain.keys() & second.plain.keys():
        pair = first.plain[name], second.plain[name]
        if all(isinstance(value, float) for value in pair):
            for side, tensor in zip((first, second), _equal_tensors(*pair), strict=True):
                del side.plain[name]
                side.outputs[name] = tensor
                side.python_floats |= {name} if _fits_float32(tensor) else set()
    changed = first.state.keys() | second.state.keys() | (first.changed.keys() ^ second.changed.keys())
    for path in changed & first.numbers.keys() & second.numbers.keys():
        pair = first.numbers[path], second.numbers[path]
        if any(isinstance(value, float | torch.Tensor) for value in pair):
            for side, tensor in zip((first, second), _equal_tensors(*pair), strict=True):
                side.state.pop(path, None)
                side.changed[path] = tensor
                side.python_floats |= {path} if _fits_float32(tensor) else set()


def _equal_tensors(one: float | torch.Tensor, other: float | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two values with one element as tensors of the same dtype and shape."""
    given = [value for value in (one, other) if isinstance(value, torch.Tensor)]
    if len(given) == 2:
        return given[0], given[1]
    dtype = given[0].dtype if given else torch.float64
    if any(isinstance(value, float) for value in (one, other)) and not dtype.is_floating_point:
        dtype = torch.float64
    like = given[0] if given else torch.empty(())
    first, second = (torch.as_tensor(value, dtype=dtype, device=like.device) for value in (one, other))
    return first.reshape(like.shape), second.reshape(like.shape)


def _fits_float32(tensor: torch.Tensor) -> bool:
    """Return whether a value is a float64 of which float32 keeps the magnitude."""
    return tensor.dtype == torch.float64 and bool(tensor.abs() < torch.finfo(torch.float32).max)


def differing_state(first: Observation, second: Observation) -> frozenset[str]:
    """Return the names of Python state, buffers and parameters in which two observations differ."""
    names = {
        path
        for path in first.state.keys() | second.state.keys()
        if not _same_leaves(first.state.get(path), second.state.get(path))
    }
    for name in first.changed.keys() | second.changed.keys():
        one, other = first.changed.get(name), second.changed.get(name)
        if name.startswith("input"):
            continue
        if one is None or other is None or not comparable(one, other) or not _same_values(one, other):
            names.add(name)
    return frozenset(names)


def without_state(observation: Observation, names: frozenset[str]) -> Observation:
    """Return a copy of an observation without some Python state, buffers and parameters."""

    def others(values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in names}

    kinds = ("state", "changed", "unchanged", "numbers", "outputs", "plain")
    kept: dict[str, Any] = {kind: others(getattr(observation, kind)) for kind in kinds}
    return replace(observation, python_floats=set(observation.python_floats), **kept)


def _same_leaves(one: Any, other: Any) -> bool:
    """Return whether two leaves are equal; NaN equals NaN."""
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or bool(one == other)


def comparable(eager: torch.Tensor, compiled: torch.Tensor | None) -> bool:
    """Check whether the values of two tensors can be compared elementwise."""
    if compiled is None:
        return False
    same = all(getattr(eager, fact) == getattr(compiled, fact) for fact in ("shape", "dtype", "device", "layout"))
    return same and eager.layout == torch.strided


def _missing(
    kind: str, first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    verb = {"outputs": "is returned", "gradients": "exists", "changed": "is changed"}[kind]
    for name in first.keys() - second.keys():
        yield ObservationDiff(f"{name} {verb} {sides[0]}, not {sides[1]}", True)
    for name in second.keys() - first.keys():
        yield ObservationDiff(f"{name} {verb} {sides[1]}, not {sides[0]}", True)


def _diff_tensors(
    name: str, first: torch.Tensor, second: torch.Tensor, sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    facts = (
        ("shape", list(first.shape), list(second.shape), True),
        ("dtype", dtype_text(first.dtype), dtype_text(second.dtype), True),
        ("device", first.device, second.device, True),
        ("stride", _strides(first), _strides(second), False),
    )
    for fact, one, other, wrong in facts:
        if one != other and not (fact == "stride" and first.shape != second.shape):
            yield ObservationDiff(f"{name} has {fact} {one} {sides[0]}, {other} {sides[1]}", wrong)


def _strides(tensor: torch.Tensor) -> list[int] | None:
    """Return the strides of the dimensions with more than one element; other strides have no effect."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _diff_aliases(
    name: str, first: str | None, second: str | None, sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    if first == second:
        return
    one, other = (f"shares memory with {owner}" if owner else "has its own memory" for owner in (first, second))
    yield ObservationDiff(f"{name} {one} {sides[0]}, {other} {sides[1]}", False)
