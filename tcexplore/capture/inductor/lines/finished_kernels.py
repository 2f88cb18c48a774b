"""Where a kernel's text is finished: its marks are taken out before torch hashes, names or compiles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.kernel_source import KernelSource
from tcexplore.capture.inductor.lines.current_op import FACT
from tcexplore.capture.inductor.lines.line_marks import MarkedText, Marks, Ops

_DEFINING = ("cpp:CppScheduling", "triton:TritonScheduling")
_WATCHED = "_tcexplore_handover"
_TAKEN = "other hooks of this process follow statements already; they have to be removed before these are installed"


class Handover:
    """Keeps, by kernel name, where the marks were in the text that was defined last."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._defined: dict[str, MarkedText] = {}
        self._others = False

    def install(self, hooks: Hooks) -> bool:
        """Watch kernels being defined. False, and no line may be marked, when this torch does it elsewhere, or when
        others do so already: a value can be marked for one of them alone."""
        symbols = (f"torch._inductor.codegen.{owner}.define_kernel" for owner in _DEFINING)
        found = [hooks.wrap(FACT, symbol, self._defining) for symbol in symbols]
        if self._others:
            hooks.missing(FACT, "torch._inductor.codegen", _TAKEN)
        return all(found) and not self._others

    def _defining(self, original: Callable[..., str]) -> Callable[..., str]:
        self._others = self._others or hasattr(original, _WATCHED)

        def define_kernel(scheduling: Any, src_code: str, *args: Any, **kwargs: Any) -> str:
            marked = self._marks.strip(src_code)
            name = original(scheduling, marked.text, *args, **kwargs)
            self._defined[name] = marked
            return name

        setattr(define_kernel, _WATCHED, self)
        return define_kernel

    def take(self, kernel: str, source: KernelSource) -> dict[int, Ops]:
        """The ops of the lines of `source`, counted from 1, for the definition of `kernel` that came last.

        A line whose text is not what was marked is left out.
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
