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
CPP = "/*{}*/"
TRITON = "#{}"

_SCHEDULINGS = ("cpp:CppScheduling", "triton:TritonScheduling")
_HOOKED = "_tcexplore_marked_kernels"
_ALREADY_HOOKED = (
    "other hooks of this process mark statements already; they have to be removed before these are installed"
)

Ops = tuple[str, ...]
"""Names of post-grad nodes."""


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
        self._ops: list[dict[str, None]] = []
        self._sign = f"@tcexplore{next(self._instances)}:"
        self._mark = re.compile(rf"(?:/\*|#){self._sign}(\d+)@(?:\*/)?")

    @property
    def issued(self) -> int:
        """Number of marks issued so far, which is also the number of the next mark."""
        return len(self._ops)

    def mark(self, line: str, ops: Ops, form: str) -> str:
        """Add a new mark to a line, unless it is blank, marked already, or cannot have a comment."""
        if not ops or not line.strip() or self._sign in line or line.endswith("\\"):
            return line
        self._ops.append(dict.fromkeys(ops))
        return line + form.format(f"{self._sign}{len(self._ops) - 1}@")

    def add(self, numbers: Iterable[int], ops: Ops) -> None:
        """Add ops to existing marks."""
        for number in numbers:
            self._ops[number].update(dict.fromkeys(ops))

    def strip(self, text: str) -> MarkedText:
        """Remove all marks from a text."""
        pieces = self._mark.split(text)
        texts, numbers = pieces[::2], pieces[1::2]
        ops: dict[int, dict[str, None]] = defaultdict(dict)
        line = 0
        for before, number in zip(texts, numbers, strict=False):  # a text follows the last number
            line += before.count("\n")
            ops[line].update(self._ops[int(number)])
        return MarkedText("".join(texts), {n: tuple(names) for n, names in ops.items()})


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
