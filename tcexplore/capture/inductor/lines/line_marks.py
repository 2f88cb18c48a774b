"""Marks that travel with the text of a kernel while it is written: a comment at a line's end that names its ops."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

CPP = "/*{}*/"
TRITON = "#{}"

Ops = tuple[str, ...]
"""Names of post-grad nodes."""


class MarkedText(NamedTuple):
    """A text without its marks, and the ops of those lines (counted from 0) that had one."""

    text: str
    ops: dict[int, Ops]


class Marks:
    """Issues marks, each once; what a mark stands for may grow after its line was written.

    Marks of another instance are left alone.
    """

    _instances = itertools.count()

    def __init__(self) -> None:
        self._ops: list[dict[str, None]] = []
        self._sign = f"@tcexplore{next(self._instances)}:"
        self._mark = re.compile(rf"/\*{self._sign}(\d+)@\*/|#{self._sign}(\d+)@")

    @property
    def issued(self) -> int:
        """How many marks there are: those of a piece of work are the numbers between two readings."""
        return len(self._ops)

    def mark(self, line: str, ops: Ops, form: str) -> str:
        """The line with a new mark; as it is when it is blank, has one already, or could not bear a comment."""
        if not ops or not line.strip() or self._sign in line or line.endswith("\\"):
            return line
        self._ops.append(dict.fromkeys(ops))
        return line + form.format(f"{self._sign}{len(self._ops) - 1}@")

    def add(self, numbers: Iterable[int], ops: Ops) -> None:
        """The lines that bear these marks are also those of `ops`."""
        for number in numbers:
            self._ops[number].update(dict.fromkeys(ops))

    def strip(self, text: str) -> MarkedText:
        """Take all marks out of a text."""
        if self._sign not in text:
            return MarkedText(text, {})
        found: dict[int, Ops] = {}
        lines = text.split("\n")
        for n, line in enumerate(lines):
            if self._sign in line:
                numbers = [int(cpp or triton) for cpp, triton in self._mark.findall(line)]
                found[n] = tuple(dict.fromkeys(op for number in numbers for op in self._ops[number]))
                lines[n] = self._mark.sub("", line)
        return MarkedText("\n".join(lines), found)
