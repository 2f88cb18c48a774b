"""The calls that the file's `inputs` define, their descriptions and their device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.fx.tensor_descriptions import tensor_facts

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
