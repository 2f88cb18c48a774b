"""Pairs that Inductor's scheduler refuses without giving a reason: which of its questions was answered with no, and
what the two nodes are that it was asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcexplore.capture.hooks import Hooks

FACT = "fusion refused"
_SCHEDULER = "torch._inductor.scheduler:Scheduler"
_CPP = "torch._inductor.codegen.cpp:CppScheduling"

Refused = Callable[[Any, Any, str, str], None]
"""Called with the two nodes, the reason and the method that said no."""


@dataclass(slots=True)
class _Question:
    """One call of `Scheduler.can_fuse`. `said` is set when torch gave a reason for it; else `by` is the method that
    said no to these two, and `reason` what they are."""

    said: bool = False
    by: str = ""
    reason: str = ""


class UnsaidRefusals:
    """Watches the scheduler ask, and tells of each pair that it leaves apart in silence."""

    def __init__(self, hooks: Hooks, refused: Refused) -> None:
        self._hooks = hooks
        self._refused = refused
        self._asking: list[_Question] = []

    def install(self) -> None:
        """Watch the questions, and the backend's answers."""
        watch = self._hooks.watch
        watch(FACT, f"{_SCHEDULER}.can_fuse", before=self._asked, after=self._answered, failed=self._given_up)
        watch(FACT, f"{_SCHEDULER}.speedup_by_fusion", after=self._measured)
        watch(FACT, f"{_CPP}.can_fuse_vertical", after=self._vertical)
        watch(FACT, f"{_CPP}.can_fuse_horizontal", after=self._horizontal)

    def said(self) -> None:
        """torch gives a reason for what it was asked last."""
        if self._asking:
            self._asking[-1].said = True

    def _asked(self, *_: Any, **__: Any) -> None:
        self._asking.append(_Question())

    def _given_up(self, *_: Any, **__: Any) -> None:
        self._asking.pop()

    def _answered(self, fuse: bool, _scheduler: Any, a: Any, b: Any, *_: Any, **__: Any) -> None:
        question = self._asking.pop()
        if not fuse and not question.said and a is not b:
            kinds = f"{type(a).__name__}, {type(b).__name__}"
            self._refused(a, b, question.reason or kinds, question.by or "Scheduler.can_fuse")

    def _measured(self, result: Any, _scheduler: Any, a: Any, b: Any) -> None:
        """A fusion that is left to a measurement has a function in the place of an answer."""
        if getattr(result, "callable_fn", None) is None and not getattr(result, "should_fuse", result):
            self._refused(a, b, "no speed-up expected", "Scheduler.speedup_by_fusion")

    def _vertical(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            self._no(
                "CppScheduling.can_fuse_vertical", _template(a, b) or f"no loop in common: {_loops(a)}, {_loops(b)}"
            )

    def _horizontal(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            reason = _template(a, b) or _too_many(a, b) or _outer_loop(a, b)
            reason = reason or f"loops of different ranges: {_loops(a)}, {_loops(b)}"
            self._no("CppScheduling.can_fuse_horizontal", reason)

    def _no(self, by: str, reason: str) -> None:
        if self._asking:
            self._asking[-1].by, self._asking[-1].reason = by, reason


def _loops(node: Any) -> str:
    """The ranges that a node's group loops and reduces over; of an outer-loop fusion those of its parts, and how many
    loops they share."""
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
        return "the first is a template that cannot take the second in"
    return "nothing is fused into a C++ template's inputs" if b.is_template() else ""


def _too_many(a: Any, b: Any) -> str:
    from torch._inductor import config

    together, most = len(a.get_nodes()) + len(b.get_nodes()), config.cpp.max_horizontal_fusion_size
    return f"{together} nodes, at most {most} side by side" if together > most else ""


def _outer_loop(a: Any, b: Any) -> str:
    parts = [node for node in (a, b) if hasattr(node, "outer_loop_fusion_depth")]
    return "an outer-loop fusion takes nothing in that only reads the same data" if parts else ""
