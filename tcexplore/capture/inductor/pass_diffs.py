"""Changes that each Inductor pass makes to a graph, from the graph's text before and after the pass."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tcexplore.capture.fx_nodes import GraphText
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import GraphPhase, Hunk, PassRun, RunFact

_COMPILE = "torch._inductor.compile_fx"
_OBSERVER = "torch.fx.passes.graph_transform_observer:GraphTransformObserver"

STAGES = {
    "pre_grad": f"{_COMPILE}:_recursive_pre_grad_passes",
    "joint": f"{_COMPILE}:_recursive_joint_graph_passes",
    "post_grad": f"{_COMPILE}:_recursive_post_grad_passes",
}
"""torch's functions that run a stage's passes."""

CONTEXT_LINES = 2
"""Unchanged lines shown above and below a change."""


@dataclass(slots=True)
class _Stage:
    """A stage in progress."""

    name: str
    text: GraphText = field(default_factory=GraphText)
    lines: list[str] = field(default_factory=list)
    """The graph's lines at the last comparison."""
    depth: int = 0
    """Number of passes in progress."""


class Passes:
    """Observer of the pass stages; a subgraph has its own stages inside those of the outer graph."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._open: list[_Stage] = []
        self._phase: GraphPhase = "forward"

    def install(self) -> None:
        """Watch the stages and the passes inside them."""
        watch = self._hooks.watch
        for name, symbol in STAGES.items():
            watch(RunFact.PASSES, symbol, before=partial(self._begin, name), after=self._end, failed=self._abandon)
        watch(RunFact.PASSES, f"{_OBSERVER}.__enter__", before=self._pass_begins)
        watch(RunFact.PASSES, f"{_OBSERVER}.__exit__", after=self._pass_ends)
        watch(RunFact.PASSES, f"{_COMPILE}:fx_codegen_and_compile", before=self._compiling)

    def _compiling(self, *_: Any, **options: Any) -> None:
        self._phase = "backward" if options.get("is_backward") else "forward"

    def _begin(self, name: str, gm: Any, *_: Any, **__: Any) -> None:
        stage = _Stage(name)
        stage.lines = stage.text.lines(gm.graph)
        self._open.append(stage)

    def _end(self, _result: Any, gm: Any, *_: Any, **__: Any) -> None:
        self._compare(gm, "")
        self._open.pop()

    def _abandon(self, *_: Any, **__: Any) -> None:
        self._open.pop()

    def _pass_begins(self, observer: Any) -> None:
        if not self._open:
            return
        stage = self._open[-1]
        if not stage.depth:
            self._compare(observer.gm, "")
        stage.depth += 1

    def _pass_ends(self, _result: Any, observer: Any, *_: Any) -> None:
        if not self._open:
            return
        stage = self._open[-1]
        stage.depth -= 1
        if not stage.depth:
            self._compare(observer.gm, observer.passname)

    def _compare(self, gm: Any, name: str) -> None:
        """Emit the changes since the last comparison: those of the pass `name`, or of unnamed code if it is empty."""
        stage = self._open[-1]
        before, stage.lines = stage.lines, stage.text.lines(gm.graph)
        changes = hunks(before, stage.lines)
        if changes or name:
            phase = self._phase if stage.name == "post_grad" else "forward"
            self._hooks.emit(
                PassRun(
                    graph=compile_id(),
                    stage=stage.name,
                    phase=phase,
                    name=name,
                    nodes_before=len(before),
                    nodes_after=len(stage.lines),
                    hunks=changes,
                )
            )


def hunks(before: Sequence[str], after: Sequence[str]) -> tuple[Hunk, ...]:
    """Return the differences in order.

    A pass changes little of a graph, so equal lines at both ends are cut off before the comparison.
    """
    if before == after:
        return ()
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    middle = before[start : len(before) - end], after[start : len(after) - end]
    matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
    return tuple(
        _hunk(before, after, start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    )


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Count the equal lines at the start of both."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _hunk(before: Sequence[str], after: Sequence[str], a: int, b: int, c: int, d: int) -> Hunk:
    return Hunk(
        at=a,
        removed=tuple(before[a:b]),
        added=tuple(after[c:d]),
        above=tuple(before[max(a - CONTEXT_LINES, 0) : a]),
        below=tuple(before[b : b + CONTEXT_LINES]),
    )


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit a `PassRun` for each pass that runs, and for each change outside a named pass."""
    Passes(hooks).install()
