"""What each of Inductor's passes does to a graph: looked at before and after, where torch says that a pass runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tcexplore.capture.fx.fx_text import GraphText
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compile_id
from tcexplore.capture.inductor.pass_hunks import hunks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import PassRun

_FACT = "passes"
_COMPILE = "torch._inductor.compile_fx"
_OBSERVER = "torch.fx.passes.graph_transform_observer:GraphTransformObserver"

STAGES = {
    "pre_grad": f"{_COMPILE}:_recursive_pre_grad_passes",
    "joint": f"{_COMPILE}:_recursive_joint_graph_passes",
    "post_grad": f"{_COMPILE}:_recursive_post_grad_passes",
}


@dataclass(slots=True)
class _Stage:
    """A stage that is going on; `lines` is the graph as it was looked at last, `depth` how many passes are open."""

    name: str
    text: GraphText = field(default_factory=GraphText)
    lines: list[str] = field(default_factory=list)
    depth: int = 0


class Passes:
    """Follows the stages of one compile after another; graphs inside a graph have stages of their own."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._open: list[_Stage] = []
        self._phase = "forward"

    def install(self) -> None:
        """Watch the stages begin and end, and the passes in them."""
        watch = self._hooks.watch
        for name, symbol in STAGES.items():
            watch(_FACT, symbol, before=partial(self._begin, name), after=self._end, failed=self._abandon)
        watch(_FACT, f"{_OBSERVER}.__enter__", before=self._pass_begins)
        watch(_FACT, f"{_OBSERVER}.__exit__", after=self._pass_ends)
        watch(_FACT, f"{_COMPILE}:fx_codegen_and_compile", before=self._compiling)

    def _compiling(self, *_: Any, **options: Any) -> None:
        self._phase = "backward" if options.get("is_backward") else "forward"

    def _begin(self, name: str, gm: Any, *_: Any, **__: Any) -> None:
        stage = _Stage(name)
        stage.lines = stage.text.lines(gm.graph)
        self._open.append(stage)

    def _end(self, _result: Any, gm: Any, *_: Any, **__: Any) -> None:
        self._look(gm, "")
        self._open.pop()

    def _abandon(self, *_: Any, **__: Any) -> None:
        self._open.pop()

    def _pass_begins(self, observer: Any) -> None:
        if not self._open:
            return
        stage = self._open[-1]
        if not stage.depth:
            self._look(observer.gm, "")
        stage.depth += 1

    def _pass_ends(self, _result: Any, observer: Any, *_: Any) -> None:
        if not self._open:
            return
        stage = self._open[-1]
        stage.depth -= 1
        if not stage.depth:
            self._look(observer.gm, observer.passname)

    def _look(self, gm: Any, name: str) -> None:
        """Say what is different from the last look: through the pass `name`, or before it where that is empty."""
        stage = self._open[-1]
        before, stage.lines = stage.lines, stage.text.lines(gm.graph)
        found = hunks(before, stage.lines)
        if found or name:
            phase = self._phase if stage.name == "post_grad" else "forward"
            self._hooks.emit(
                PassRun(
                    graph=compile_id(),
                    stage=stage.name,
                    phase=phase,
                    name=name,
                    before=len(before),
                    after=len(stage.lines),
                    hunks=found,
                )
            )


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `PassRun` for each pass that runs, and for what changes a graph between those that have a name."""
    Passes(hooks).install()
