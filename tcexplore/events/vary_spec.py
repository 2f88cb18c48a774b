"""What of a file's calls is varied, as the command line says it: `x.0=1..64`, `lr=0.1,0.01`, `1.2=8,16`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST = 1000
"""Values of one argument, and calls that several make together."""

_SPEC = re.compile(r"\s*(?P<argument>[A-Za-z_]\w*|\d+)\s*(?:\.\s*(?P<dim>\d+)\s*)?=(?P<values>.*)", re.DOTALL)
_RANGE = re.compile(r"\s*(-?\d+)\s*\.\.\s*(-?\d+)\s*")
_EXAMPLES = "write for instance 'x.0=1..64' (sizes of a dimension) or 'lr=0.1,0.01' (values)"

Value = bool | int | float | str | None


class VaryError(ValueError):
    """The text says nothing that calls could be varied by."""


@dataclass(frozen=True, slots=True)
class Vary:
    """One argument and what it takes in turn.

    `argument` is its name, or its position from 0 on in digits. With a `dim` the values are sizes of that dimension of
    a tensor, else they take the argument's place.
    """

    argument: str
    dim: int | None
    values: tuple[Value, ...]

    @property
    def what(self) -> str:
        """`x.0`, or `lr`."""
        return self.argument if self.dim is None else f"{self.argument}.{self.dim}"


def parse(text: str) -> Vary:
    """The argument and its values, none where nothing follows the `=`. Raises `VaryError` with one sentence."""
    found = _SPEC.fullmatch(text)
    if found is None:
        raise VaryError(f"{text!r} names no argument and values: {_EXAMPLES}")
    dim = None if found["dim"] is None else int(found["dim"])
    values = tuple(_values(found["values"], text)) if found["values"].strip() else ()
    if len(values) > MOST:
        raise VaryError(f"{text!r} stands for {len(values):,} values, and {MOST:,} is the most")
    wrong = next((value for value in values if dim is not None and not _is_size(value)), None)
    if wrong is not None:
        raise VaryError(f"{text!r}: {wrong!r} is no size of a dimension")
    return Vary(found["argument"], dim, values)


def parse_all(texts: Sequence[str]) -> tuple[Vary, ...]:
    """All of them, to be combined. Raises `VaryError`, also where they make too many calls together."""
    found = tuple(parse(text) for text in texts)
    bare = next((text for text, vary in zip(texts, found, strict=True) if not vary.values), None)
    if bare is not None:
        raise VaryError(f"{bare!r} has no values: {_EXAMPLES}")
    calls = math.prod(len(vary.values) for vary in found)
    if calls > MOST:
        raise VaryError(f"together they make {calls:,} calls, and {MOST:,} is the most")
    return found


def _values(text: str, spec: str) -> Iterator[Value]:
    for part in text.split(","):
        between = _RANGE.fullmatch(part)
        if between is None:
            yield _value(part.strip(), spec)
            continue
        first, last = int(between[1]), int(between[2])
        if last < first:
            raise VaryError(f"{spec!r}: the range {part.strip()} is empty")
        # A range of many values is refused for their number: they need not all be made.
        yield from range(first, min(last, first + MOST) + 1)


def _value(text: str, spec: str) -> Value:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = ...
    if not isinstance(value, bool | int | float | str | None):
        raise VaryError(f"{spec!r}: {text!r} is no value: {_EXAMPLES}")
    return value


def _is_size(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
