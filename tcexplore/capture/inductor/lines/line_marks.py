"""Marks in the text of a kernel while it is generated: a comment at the end of a line that names its ops.

The marks are removed before torch hashes, names or compiles the kernel.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.torch_text.kernel_source import KernelSource

FACT = "statement provenance"
CPP = ("/*", "*/")
TRITON = ("#", "")
"""What comes before and after a mark in a kernel's language."""

_SCHEDULINGS = ("cpp:CppScheduling", "triton:TritonScheduling")
_HOOKED = "_tcexplore_marked_kernels"
_ALREADY_HOOKED = (
    "other hooks of this process mark statements already; they have to be removed before these are installed"
)

Ops = tuple[str, ...]
"""Names of post-grad nodes."""

Form = tuple[str, str]


class MarkedText(NamedTuple):
    """A text without its marks."""

    text: str
    ops: dict[int, Ops]
    """The ops of each marked line, counted from 0."""


class LineMarks:
    """Issuer of unique marks; a mark may get further ops after its line was written.

    Each instance ignores the marks of others.
    """

    _instances = itertools.count()

    def __init__(self) -> None:
        self.issued = 0
        """Number of marks issued so far, which is also the number of the next mark."""
        self._ops: list[Ops] = []
        self._sign = f"@tcexplore{next(self._instances)}:"
        self._mark = re.compile(rf"(?:/\*|#){self._sign}(\d+)@(?:\*/)?")

    def mark(self, line: str, ops: Ops, form: Form) -> str:
        """Add a new mark to a line, unless it is blank, marked already, or cannot have a comment."""
        if not ops or not line or line.isspace() or self._sign in line or line.endswith("\\"):
            return line
        before, after = form
        number = self.issued
        self._ops.append(ops)
        self.issued = number + 1
        return f"{line}{before}{self._sign}{number}@{after}"

    def add(self, numbers: Iterable[int], ops: Ops) -> None:
        """Add ops to existing marks."""
        for number in numbers:
            self._ops[number] = _union((self._ops[number], ops))

    def strip(self, text: str) -> MarkedText:
        """Remove all marks from a text."""
        first, *marked = self._mark.split(text)
        parts, ops, line = [first], defaultdict[int, list[Ops]](list), first.count("\n")
        for number, part in zip(marked[::2], marked[1::2], strict=True):
            ops[line].append(self._ops[int(number)])
            parts.append(part)
            line += part.count("\n")
        return MarkedText("".join(parts), {n: _union(marked_ops) for n, marked_ops in ops.items()})


def _union(parts: Iterable[Ops]) -> Ops:
    return tuple(dict.fromkeys(op for part in parts for op in part))


class MarkedKernels:
    """The marks of complete kernels, by kernel name, of the latest definition."""

    def __init__(self, marks: LineMarks) -> None:
        self._marks = marks
        self._defined: dict[str, MarkedText] = {}
        self._already_hooked = False

    def install(self, hooks: Hooks) -> bool:
        """Watch kernel definitions; return whether lines may be marked.

        Do not mark lines if torch defines kernels elsewhere, or if other hooks mark lines: a value has only one mark.
        """
        symbols = (f"torch._inductor.codegen.{owner}.define_kernel" for owner in _SCHEDULINGS)
        exist = [hooks.wrap(FACT, symbol, self._defining) for symbol in symbols]
        if self._already_hooked:
            hooks.report_missing(FACT, "torch._inductor.codegen", _ALREADY_HOOKED)
        return all(exist) and not self._already_hooked

    def _defining(self, original: Callable[..., str]) -> Callable[..., str]:
        self._already_hooked = self._already_hooked or hasattr(original, _HOOKED)

        def define_kernel(scheduling: Any, src_code: str, *args: Any, **kwargs: Any) -> str:
            marked = self._marks.strip(src_code)
            name = original(scheduling, marked.text, *args, **kwargs)
            self._defined[name] = marked
            return name

        setattr(define_kernel, _HOOKED, self)
        return define_kernel

    def take(self, kernel: str, source: KernelSource) -> dict[int, Ops]:
        """Return the ops of the lines of `source`, counted from 1, for the latest definition of `kernel`.

        Lines whose text differs from the marked one are left out.
        """
        marked = self._defined.pop(kernel, None)
        if marked is None:
            return {}
        written, shown = marked.text.split("\n"), source.text.split("\n")
        blank = next((n for n, line in enumerate(written) if line.strip()), 0)
        placed = {n - blank - source.cut: (written[n].strip(), ops) for n, ops in marked.ops.items()}
        return {
            n + 1: ops
            for n, (text, ops) in sorted(placed.items())
            if 0 <= n < len(shown) and shown[n].strip() == text and any(c.isalnum() for c in text)
        }
