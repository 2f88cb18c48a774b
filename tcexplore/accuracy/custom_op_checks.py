"""Checks of the user's custom ops: results against fake implementations, and `torch.library.opcheck`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tcexplore.capture.tensor_descriptions import TensorFacts, tensor_facts
from tcexplore.capture.user_ops import custom_op, custom_op_definition
from tcexplore.events import CustomOpChecked, Location

LONGEST_REASON = 500
"""Characters of an error message in a reason."""


class OpCall(NamedTuple):
    """The first call of a custom op: copies of its arguments, and what it returned."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[TensorFacts]


class OpCalls(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """Collects the first call of each custom op."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[torch._ops.OpOverload, OpCall] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = custom_op(func)
        if op is None or op.kind != "custom op" or func in self.first:
            return func(*args, **kwargs)
        copied_args, copied_kwargs = pytree.tree_map_only(torch.Tensor, _copy, (args, kwargs))
        result = func(*args, **kwargs)
        self.first[func] = OpCall(copied_args, copied_kwargs, _describe(result))
        return result


def check_custom_ops(call_all: Callable[[], None], *, opcheck: bool) -> Iterator[CustomOpChecked]:
    """Make the calls, and check each custom op that they use with the arguments of its first call."""
    with OpCalls() as calls:
        call_all()
    for op, call in calls.first.items():
        yield _check_fake(op, call)
        if opcheck:
            yield from _opcheck(op, call)


def _check_fake(op: torch._ops.OpOverload, call: OpCall) -> CustomOpChecked:
    reason = ""
    try:
        with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True) as mode:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda tensor: mode.from_tensor(tensor, static_shapes=True), (call.args, call.kwargs)
            )
            fake = _describe(op(*args, **kwargs))
    except Exception as error:  # noqa: BLE001  the user's fake implementation may raise anything
        reason = f"its fake implementation raises {_first_line(error)}"
    else:
        if not _agree(call.results, fake):
            reason = f"returns {_text(call.results)}, its fake implementation {_text(fake)}"
    definition = custom_op_definition(op._schema.name)
    place = _location(getattr(definition, "_abstract_fn", None)) or _definition(op)
    return _checked(op, "fake implementation", reason, place)


def _opcheck(op: torch._ops.OpOverload, call: OpCall) -> Iterator[CustomOpChecked]:
    outcomes = torch.library.opcheck(op, call.args, call.kwargs, raise_exception=False)
    for test, outcome in outcomes.items():
        yield _checked(op, test, "" if outcome == "SUCCESS" else _first_line(outcome), _definition(op))


def _checked(op: torch._ops.OpOverload, test: str, reason: str, place: Location | None) -> CustomOpChecked:
    name = op._schema.name.replace("::", ".")
    return CustomOpChecked(op=name, test=test, passed=not reason, reason=reason, location=place)


def _agree(results: list[TensorFacts], fakes: list[TensorFacts]) -> bool:
    return len(results) == len(fakes) and all(map(_same, results, fakes))


def _same(result: TensorFacts, fake: TensorFacts) -> bool:
    """Compare dtype, device, sizes and strides; sizes that depend on data, and strides of size 1, may be anything."""
    if (result.dtype, result.device, len(result.shape)) != (fake.dtype, fake.device, len(fake.shape)):
        return False
    known = [index for index, size in enumerate(fake.shape) if size.isdecimal()]
    if any(result.shape[index] != fake.shape[index] for index in known):
        return False
    if result.stride is None or fake.stride is None or "0" in result.shape:
        return result.stride is fake.stride or "0" in result.shape
    steps = zip(result.shape, result.stride, fake.stride, strict=True)
    return all(size == "1" or not fake_step.isdecimal() or step == fake_step for size, step, fake_step in steps)


def _text(tensors: list[TensorFacts]) -> str:
    return ", ".join(facts.text for facts in tensors) or "no tensor"


def _describe(result: Any) -> list[TensorFacts]:
    return [facts for leaf in pytree.tree_leaves(result) if (facts := tensor_facts(leaf)) is not None]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    copied = tensor.detach().clone()
    return copied.requires_grad_(tensor.requires_grad)


def _location(function: Any) -> Location | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, code.co_name)


def _definition(op: torch._ops.OpOverload) -> Location | None:
    described = custom_op(op)
    return described.location if described else None


def _first_line(error: object) -> str:
    text = str(error).strip().partition("\n")[0][:LONGEST_REASON]
    return f"{type(error).__name__}: {text}" if isinstance(error, BaseException) else text
