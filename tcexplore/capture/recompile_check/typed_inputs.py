"""Inputs as a user types them, made into a call: what is left as it was stays the very object of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe, described
from tcexplore.capture.entry.input_specs import named_argument, value_from
from tcexplore.events.input_line import parted

_STRIDES = re.compile(
    r"(?P<tensor>[a-z]\w*\s*\[[\d\s,]*\])(?:\s+strides?\s*\[(?P<strides>[\d\s,]*)\])?(?P<grad>\s+grad)?"
)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MISSING = object()


def call_from_typed(texts: Sequence[str], calls: Sequence[Call]) -> Call:
    """The call that the texts describe.

    A text that describes the file's own argument in that place keeps it. A new tensor takes after the one in its
    place: its device, whether it requires a gradient, its layout and its dynamic marks; its values are arbitrary.
    Besides `--input` specifications there are lists, tuples and dicts of them, `f32[4,6] strides[1,4]` and
    `f32[4] grad`. Raises `EntryError`.
    """
    base = max(calls, key=lambda call: len(set(describe(call)) & set(texts)), default=Call())
    made = _Typed()
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, value = named_argument(text)
        if name is None:
            own = base.args[len(args)] if len(args) < len(base.args) else _MISSING
            args.append(made.value(value, own))
        else:
            kwargs[name] = made.value(value, base.kwargs.get(name, _MISSING))
    return Call(tuple(args), kwargs)


class _Typed:
    """What one call's texts were made into: equal texts for one object of the file's stay one object."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], Any] = {}

    def value(self, text: str, own: Any) -> Any:
        text = text.strip()
        if own is not _MISSING and text == described(own):
            return own
        key = (id(own), text)
        if own is _MISSING or key not in self._made:
            self._made[key] = self._new(text, own)
        return self._made[key]

    def _new(self, text: str, own: Any) -> Any:
        found = _STRIDES.fullmatch(text)
        if found:
            return _tensor(found, text, own if isinstance(own, torch.Tensor) else None)
        if text[:1] in _CLOSING and text[-1:] == _CLOSING[text[:1]]:
            return _CONTAINERS[text[0]](self, parted(text[1:-1]), own)
        return value_from(text, text, None)

    def items(self, texts: list[str], own: Any) -> list[Any]:
        owned = list(own) if isinstance(own, list | tuple) else []
        return [self.value(t, owned[n] if n < len(owned) else _MISSING) for n, t in enumerate(texts)]

    def mapping(self, texts: list[str], own: Any) -> dict[Any, Any]:
        known = {str(key): key for key in own} if isinstance(own, dict) else {}
        made = {}
        for text in texts:
            written, _, value = text.partition(":")
            name = written.strip().strip("'\"")
            key = known.get(name, name)
            made[key] = self.value(value, own.get(key, _MISSING) if isinstance(own, dict) else _MISSING)
        return made


_CONTAINERS: dict[str, Callable[[_Typed, list[str], Any], Any]] = {
    "[": lambda made, texts, own: made.items(texts, own),
    "(": lambda made, texts, own: tuple(made.items(texts, own)),
    "{": lambda made, texts, own: made.mapping(texts, own),
}


def _tensor(found: re.Match[str], text: str, own: torch.Tensor | None) -> torch.Tensor:
    drawn = value_from(found["tensor"], text, torch.device("meta"))
    device = own.device if own is not None else torch.device("cpu")
    if found["strides"] is not None:
        strides = tuple(int(part) for part in found["strides"].split(",") if part.strip())
        if len(strides) != drawn.dim():
            raise EntryError(f"{text!r} has {drawn.dim()} dimensions and {len(strides)} strides.", "", "arguments")
        made = torch.empty_strided(drawn.shape, strides, dtype=drawn.dtype, device=device)
    else:
        made = torch.empty_permuted(drawn.shape, _layout(drawn, own), dtype=drawn.dtype, device=device)
    gradient = bool(found["grad"]) or (own is not None and own.requires_grad)
    made.requires_grad_(gradient and (made.is_floating_point() or made.is_complex()))
    if own is not None and own.dim() == made.dim():
        vars(made).update({name: mark for name, mark in vars(own).items() if name.startswith("_dynamo_")})
    return made


def _layout(drawn: torch.Tensor, own: torch.Tensor | None) -> tuple[int, ...]:
    """The order of the dimensions in memory, outermost first: as the file's own tensor has it."""
    order = tuple(range(drawn.dim()))
    if own is None or own.dim() != drawn.dim() or own.is_contiguous():
        return order
    return tuple(sorted(order, key=lambda dim: -own.stride(dim)))
