"""The calls that the file's `inputs` or `--input` define, their descriptions and their device."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.fx.tensor_descriptions import dtype_text, tensor_facts

_KINDS = """\
`inputs` may be
  a tuple of positional arguments      inputs = (torch.randn(8, 64),)
  a dict of keyword arguments          inputs = {"x": torch.randn(8, 64)}
  a list of calls, made in order       inputs = [(x, True), (x, False)]
  a function that returns one of these"""
_MAX_LENGTH = 40


def read_calls(inputs: Any) -> tuple[Call, ...]:
    """Return the calls that a file's `inputs` define. Raises `EntryError`, and exceptions of the user's function."""
    if callable(inputs) and not isinstance(inputs, torch.nn.Module | torch.Tensor):
        inputs = inputs()
    if isinstance(inputs, list):
        if not inputs:
            raise EntryError("`inputs` is an empty list: there is no call to make.", _KINDS)
        return tuple(_read_call(value, f"inputs[{index}]") for index, value in enumerate(inputs))
    return (_read_call(inputs, "inputs"),)


def _read_call(value: Any, name: str) -> Call:
    if isinstance(value, tuple):
        return Call(args=tuple(value))
    if isinstance(value, Mapping):
        bad_key = next((key for key in value if not isinstance(key, str)), None)
        if bad_key is not None:
            raise EntryError(f"`{name}` is a dict with the key {bad_key!r}: keyword arguments have names.", _KINDS)
        return Call(kwargs=dict(value))
    type_name = type(value).__name__
    article = "an" if type_name[:1].lower() in "aeiou" else "a"
    raise EntryError(f"`{name}` is {article} {type_name}, not a tuple or dict of arguments.", _KINDS)


def collect_tensors(calls: tuple[Call, ...]) -> list[torch.Tensor]:
    """Return every tensor in the arguments, without duplicates."""
    leaves = pytree.tree_leaves([(call.args, dict(call.kwargs)) for call in calls])
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def map_tensors(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """Return the call with each tensor changed. A tensor that occurs several times is changed once."""
    changed: dict[int, torch.Tensor] = {}

    def map_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf)
        return changed[id(leaf)]

    return call.map_leaves(map_leaf)


def move_calls(calls: tuple[Call, ...], device: torch.device) -> tuple[Call, ...]:
    """Return the calls with every tensor on a device, with the marks that Dynamo reads (`mark_dynamic`)."""
    moved: dict[int, torch.Tensor] = {}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device == device:
            return tensor
        if id(tensor) not in moved:
            moved[id(tensor)] = _move_tensor(tensor, device)
        return moved[id(tensor)]

    return tuple(map_tensors(call, move) for call in calls)


def _move_tensor(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    for name, mark in vars(tensor).items():
        if name.startswith("_dynamo_"):
            setattr(moved, name, mark)
    return moved


def describe_call(call: Call) -> tuple[str, ...]:
    """Return one text per argument: `f32[64, 512]`, `mask=b8[64]`, `flag=True`."""
    return (
        *(describe_value(value) for value in call.args),
        *(f"{name}={describe_value(value)}" for name, value in call.kwargs.items()),
    )


def describe_value(value: Any) -> str:
    """Return a short description of an argument."""
    facts = tensor_facts(value)
    if facts is not None:
        device = "" if facts.device == "cpu" else f" {facts.device}"
        return f"{facts.dtype}[{', '.join(facts.shape)}]{device}"
    describe_container = _CONTAINERS.get(type(value))
    if describe_container is not None:
        return describe_container(value)
    text = repr(value) if isinstance(value, bool | int | float | complex | str | None) else type(value).__name__
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


_CONTAINERS: dict[type, Callable[[Any], str]] = {
    list: lambda value: f"[{', '.join(map(describe_value, value))}]",
    tuple: lambda value: f"({', '.join(map(describe_value, value))})",
    dict: lambda value: "{" + ", ".join(f"{key}: {describe_value(item)}" for key, item in value.items()) + "}",
}


_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_TENSOR = re.compile(r"\s*([a-z]\w*)\s*\[([\d\s,]*)\]\s*(?:<\s*(\d+)\s*)?")
_HINT = "Examples: --input 'f32[64,512]', 'mask=bool[64]', 'i64[2,8]<100', 'flag=True'."

DEFAULT_BOUND = 2
"""The exclusive upper bound of random integers, if the specification gives none."""


def parse_call(specs: Sequence[str], device: torch.device | None = None) -> Call:
    """Return a call with the specified arguments, with tensors on `device`. Raises `EntryError`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        name, text = split_name(spec)
        if name is None:
            args.append(parse_value(text, spec, device))
        else:
            kwargs[name] = parse_value(text, spec, device)
    return Call(tuple(args), kwargs)


def split_name(spec: str) -> tuple[str | None, str]:
    """Split `mask=bool[64]` into name and value. The name is None for a positional argument."""
    named = _NAMED.fullmatch(spec)
    return (None, spec) if named is None else (named[1], named[2])


def parse_value(text: str, spec: str, device: torch.device | None) -> Any:
    """Return the value of `text`, which is part of the specification `spec`. Raises `EntryError`."""
    tensor = _TENSOR.fullmatch(text)
    if tensor is not None:
        return _make_tensor(tensor, spec, device)
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise EntryError(f"--input {spec!r} is neither a tensor nor a Python value.", _HINT, "arguments") from None


def _make_tensor(match: re.Match[str], spec: str, device: torch.device | None) -> torch.Tensor:
    name, sizes, bound = match.groups()
    dtype = dtypes_by_name().get(name)
    if dtype is None:
        known = ", ".join(sorted(n for n in dtypes_by_name() if len(n) <= 4))
        raise EntryError(f"--input {spec!r}: there is no dtype {name!r}.", f"torch has {known} and more.", "arguments")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        raise EntryError(f"--input {spec!r}: {sizes!r} is not a shape.", _HINT, "arguments") from None
    if device is not None and device.type == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    return _random_tensor(dtype, shape, int(bound) if bound else DEFAULT_BOUND).to(device)


def _random_tensor(dtype: torch.dtype, shape: tuple[int, ...], bound: int) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, dtype=wide).to(dtype)
    return torch.randint(0, max(bound, 1), shape).to(dtype)


@cache
def dtypes_by_name() -> dict[str, torch.dtype]:
    """Return every dtype by torch's name and by its abbreviation."""
    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return dtypes | {dtype_text(value): value for value in dtypes.values()}
