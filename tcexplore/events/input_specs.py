"""Inputs that the user types: arguments on one line (`f32[64, 512], flag=True`), and specifications of `--vary`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_CALLS = 1000
"""Limit on the values of one argument, and on the calls of all combinations."""

_SPEC = re.compile(r"\s*(?P<argument>[A-Za-z_]\w*|\d+)\s*(?:\.\s*(?P<dim>\d+)\s*)?=(?P<values>.*)", re.DOTALL)
_RANGE = re.compile(r"\s*(-?\d+)\s*\.\.\s*(-?\d+)\s*")
_EXAMPLES = "write for instance 'x.0=1..64' (sizes of a dimension) or 'lr=0.1,0.01' (values)"

_OPENING, _CLOSING = "[({", "])}"

Value = bool | int | float | str | None


def split_arguments(text: str) -> list[str]:
    """Split a line, or the items of a container, at the commas outside of brackets."""
    items, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    return [item.strip() for item in (*items, text[start:]) if item.strip()]


class VaryError(ValueError):
    """A text that is not a valid specification of how to vary an argument."""


@dataclass(frozen=True, slots=True)
class Vary:
    """One argument and its values."""

    argument: str
    """Name, or position from 0 in digits."""
    dim: int | None
    """Dimension of a tensor whose sizes are the values; None if the values replace the argument."""
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        """`x.0`, or `lr`."""
        return self.argument if self.dim is None else f"{self.argument}.{self.dim}"


def parse_vary(text: str) -> Vary:
    """Return the argument and its values, which are empty if nothing follows the `=`. Raise `VaryError` if invalid."""
    match = _SPEC.fullmatch(text)
    if match is None:
        raise VaryError(f"{text!r} does not name an argument and values: {_EXAMPLES}")
    dim = None if match["dim"] is None else int(match["dim"])
    values = tuple(_values(match["values"], text)) if match["values"].strip() else ()
    if len(values) > MAX_CALLS:
        raise VaryError(f"{text!r} has {len(values):,} values; the limit is {MAX_CALLS:,}")
    wrong = next((value for value in values if dim is not None and not _is_size(value)), None)
    if wrong is not None:
        raise VaryError(f"{text!r}: {wrong!r} is not a valid size")
    return Vary(match["argument"], dim, values)


def parse_varies(texts: Sequence[str]) -> tuple[Vary, ...]:
    """Return all arguments to combine. Raise `VaryError` if one is invalid or there are too many combinations."""
    varies = tuple(parse_vary(text) for text in texts)
    empty = next((text for text, vary in zip(texts, varies, strict=True) if not vary.values), None)
    if empty is not None:
        raise VaryError(f"{empty!r} has no values: {_EXAMPLES}")
    calls = math.prod(len(vary.values) for vary in varies)
    if calls > MAX_CALLS:
        raise VaryError(f"too many combinations: {calls:,} calls; the limit is {MAX_CALLS:,}")
    return varies


def _values(text: str, spec: str) -> Iterator[Value]:
    for part in text.split(","):
        limits = _RANGE.fullmatch(part)
        if limits is None:
            yield _value(part.strip(), spec)
            continue
        first, last = int(limits[1]), int(limits[2])
        if last < first:
            raise VaryError(f"{spec!r}: the range {part.strip()} is empty")
        # One value beyond the limit is enough to reject the range.
        yield from range(first, min(last, first + MAX_CALLS) + 1)


def _value(text: str, spec: str) -> Value:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = ...
    if not isinstance(value, bool | int | float | str | None):
        raise VaryError(f"{spec!r}: {text!r} is not a value: {_EXAMPLES}")
    return value


def _is_size(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
