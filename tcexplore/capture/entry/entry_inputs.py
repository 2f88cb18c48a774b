"""The file's `inputs` as calls: their kinds, their description, their device."""

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
  a list of such calls, run in turn    inputs = [(x, True), (x, False)]
  a function that returns one of these"""
_LONGEST = 40


def calls_from(inputs: Any) -> tuple[Call, ...]:
    """The calls that a file's `inputs` stand for. Raises `EntryError`; what the user's function raises passes."""
    if callable(inputs) and not isinstance(inputs, torch.nn.Module | torch.Tensor):
        inputs = inputs()
    if isinstance(inputs, list):
        if not inputs:
            raise EntryError("`inputs` is an empty list: there is no call to make.", _KINDS)
        return tuple(_call(one, f"inputs[{index}]") for index, one in enumerate(inputs))
    return (_call(inputs, "inputs"),)


def _call(value: Any, where: str) -> Call:
    if isinstance(value, tuple):
        return Call(args=tuple(value))
    if isinstance(value, Mapping):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            raise EntryError(f"`{where}` is a dict with the key {strange!r}: keyword arguments have names.", _KINDS)
        return Call(kwargs=dict(value))
    raise EntryError(f"`{where}` is {_article(type(value).__name__)}, not a tuple or dict of arguments.", _KINDS)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def tensors_of(calls: tuple[Call, ...]) -> list[torch.Tensor]:
    """Every tensor in the arguments, each once."""
    leaves = pytree.tree_leaves([(call.args, dict(call.kwargs)) for call in calls])
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def moved(calls: tuple[Call, ...], device: torch.device) -> tuple[Call, ...]:
    """The calls with every tensor on `device`; marks that Dynamo reads (`mark_dynamic`) go along."""
    known: dict[int, torch.Tensor] = {}

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.device == device:
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = _on(leaf, device)
        return known[id(leaf)]

    return tuple(Call(pytree.tree_map(move, call.args), pytree.tree_map(move, dict(call.kwargs))) for call in calls)


def _on(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    there = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    for name, mark in vars(tensor).items():
        if name.startswith("_dynamo_"):
            setattr(there, name, mark)
    return there


def describe(call: Call) -> tuple[str, ...]:
    """One text per argument: `f32[64, 512]`, `mask=b8[64]`, `flag=True`."""
    return (
        *(described(value) for value in call.args),
        *(f"{name}={described(value)}" for name, value in call.kwargs.items()),
    )


def described(value: Any) -> str:
    """One argument in a few words."""
    facts = tensor_facts(value)
    if facts is not None:
        device = "" if facts.device == "cpu" else f" {facts.device}"
        return f"{facts.dtype}[{', '.join(facts.shape)}]{device}"
    brackets = _BRACKETS.get(type(value))
    if brackets is not None:
        return brackets(value)
    text = repr(value) if isinstance(value, bool | int | float | complex | str | None) else type(value).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_BRACKETS: dict[type, Callable[[Any], str]] = {
    list: lambda value: f"[{', '.join(map(described, value))}]",
    tuple: lambda value: f"({', '.join(map(described, value))})",
    dict: lambda value: "{" + ", ".join(f"{key}: {described(item)}" for key, item in value.items()) + "}",
}
