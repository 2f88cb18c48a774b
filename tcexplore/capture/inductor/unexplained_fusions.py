"""Pairs that Inductor's scheduler refuses to fuse without a reason: the refusing method, and a description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.events import RunFact

_SCHEDULER = "torch._inductor.scheduler:Scheduler"
_CPP = "torch._inductor.codegen.cpp:CppScheduling"

RefusalObserver = Callable[[Any, Any, str, str], None]
"""Called with the two nodes, the reason, and the method that refused them."""


@dataclass(slots=True)
class _Attempt:
    """One call of `Scheduler.can_fuse`."""

    explained: bool = False
    """Whether torch gave a reason."""
    by: str = ""
    """The backend's method that refused the pair."""
    reason: str = ""


class UnexplainedRefusals:
    """Observer of the scheduler that reports each pair refused without a reason."""

    def __init__(self, hooks: Hooks, refused: RefusalObserver) -> None:
        self._hooks = hooks
        self._refused = refused
        self._attempts: list[_Attempt] = []

    def install(self) -> None:
        """Watch the scheduler's calls and the backend's answers."""
        watch, fact = self._hooks.watch, RunFact.FUSION_REFUSED
        watch(fact, f"{_SCHEDULER}.can_fuse", before=self._begins, after=self._ends, failed=self._failed)
        watch(fact, f"{_SCHEDULER}.speedup_by_fusion", after=self._benchmarked)
        watch(fact, f"{_CPP}.can_fuse_vertical", after=self._vertical)
        watch(fact, f"{_CPP}.can_fuse_horizontal", after=self._horizontal)

    def reason_given(self) -> None:
        """Mark the innermost attempt as explained by torch."""
        if self._attempts:
            self._attempts[-1].explained = True

    def _begins(self, *_: Any, **__: Any) -> None:
        self._attempts.append(_Attempt())

    def _failed(self, *_: Any, **__: Any) -> None:
        self._attempts.pop()

    def _ends(self, fuse: bool, _scheduler: Any, a: Any, b: Any, *_: Any, **__: Any) -> None:
        attempt = self._attempts.pop()
        if not fuse and not attempt.explained and a is not b:
            classes = f"{type(a).__name__}, {type(b).__name__}"
            self._refused(a, b, attempt.reason or classes, attempt.by or "Scheduler.can_fuse")

    def _benchmarked(self, result: Any, _scheduler: Any, a: Any, b: Any) -> None:
        """Report a pair without speedup; a result with `callable_fn` is not decided yet."""
        if getattr(result, "callable_fn", None) is None and not getattr(result, "should_fuse", result):
            self._refused(a, b, "no speedup expected", "Scheduler.speedup_by_fusion")

    def _vertical(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            self._refuse(
                "CppScheduling.can_fuse_vertical", _template(a, b) or f"no loop in common: {_loops(a)}, {_loops(b)}"
            )

    def _horizontal(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            reason = _template(a, b) or _too_many(a, b) or _outer_loop(a, b)
            reason = reason or f"loops of different ranges: {_loops(a)}, {_loops(b)}"
            self._refuse("CppScheduling.can_fuse_horizontal", reason)

    def _refuse(self, by: str, reason: str) -> None:
        if self._attempts:
            self._attempts[-1].by, self._attempts[-1].reason = by, reason


def _loops(node: Any) -> str:
    """Return the ranges of a node's loops and reductions.

    An outer-loop fusion has those of its parts, and the number of loops that they share.
    """
    depth = getattr(node, "outer_loop_fusion_depth", None)
    if depth is not None:
        parts = dict.fromkeys(map(_loops, node.get_outer_nodes()))
        return f"{' then '.join(parts)} in {depth} common loop{'s' if depth != 1 else ''}"
    _, (ranges, reduced) = node.group
    over = f" reducing {_sizes(reduced)}" if reduced else ""
    return f"{_sizes(ranges)}{over}"


def _sizes(ranges: Any) -> str:
    return f"[{' × '.join(map(str, ranges))}]"


def _template(a: Any, b: Any) -> str:
    if a.is_template():
        return "the C++ template does not support this epilogue"
    return "no prologue fusion into C++ templates" if b.is_template() else ""


def _too_many(a: Any, b: Any) -> str:
    from torch._inductor import config

    together, most = len(a.get_nodes()) + len(b.get_nodes()), config.cpp.max_horizontal_fusion_size
    return f"{together} nodes, at most {most} per horizontal fusion" if together > most else ""


def _outer_loop(a: Any, b: Any) -> str:
    parts = [node for node in (a, b) if hasattr(node, "outer_loop_fusion_depth")]
    return "outer-loop fusions are not fused horizontally" if parts else ""
