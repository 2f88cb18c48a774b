"""Graph breaks, as Dynamo's translator reports them, each place once."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.dynamo.break_reasons import plain_reason
from tcexplore.capture.dynamo.break_registry import Registry
from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.unsupported import Reason, Reasons
from tcexplore.capture.dynamo.user_stack import user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import GraphBreak, Location

_FACT = "graph breaks"
NOT_A_BREAK = frozenset({"Observed exception", "Dynamo recompile limit exceeded"})
"""The first is an exception that the user's own code raised; the second is a frame given up, with its own event."""


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `GraphBreak` for each new place that breaks, also where `fullgraph=True` makes it an error."""
    observer = _Breaks(hooks, project)
    translator = "torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break"
    hooks.watch(_FACT, translator, before=observer.logged)
    hooks.watch(_FACT, "torch._dynamo.convert_frame:_compile", failed=observer.raised)


class _Breaks:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._reasons = Reasons.watching(hooks)
        self._registry = Registry(hooks)
        self._seen: set[tuple[tuple[Location, ...], str]] = set()

    def logged(self, _translator: Any, _code_options: Any, reason: str, exc: Any) -> None:
        """Dynamo is about to break the graph. It says so for `exc` once, however many frames see it pass."""
        if not getattr(exc, "logged", False):
            self._emit(exc, reason)

    def raised(self, error: Exception, *_args: Any, **_kwargs: Any) -> None:
        """A frame failed: with `fullgraph=True` this is the first that is heard of the break."""
        if type(error).__name__ in ("Unsupported", "UserError") and not getattr(error, "logged", False):
            self._emit(error)

    def _emit(self, error: Any, logged: str = "") -> None:
        reason, *followed = self._reasons.of(error)
        if NOT_A_BREAK & {reason.kind, *(other.kind for other in followed)}:
            return
        stack = user_stack(self._project, getattr(error, "real_stack", None))
        key = (stack.inside, reason.kind)
        if key not in self._seen:
            self._seen.add(key)
            said = plain_reason(reason, followed, logged)
            self._hooks.emit(self._graph_break(reason, said, stack.whole))

    def _graph_break(self, reason: Reason, said: str, stack: tuple[Location, ...]) -> GraphBreak:
        entry = self._registry.entry(reason.kind)
        location = stack[-1] if stack else None
        return GraphBreak(
            graph=current_compile_id() or "",
            id=entry.id if entry else None,
            kind=reason.kind,
            reason=said,
            explanation=reason.explanation,
            hints=reason.hints,
            context=reason.context,
            registry_explanation=entry.explanation if entry else "",
            registry_hints=entry.hints if entry else (),
            url=self._registry.link(reason.kind),
            location=location,
            code=self._project.line(location),
            stack=stack,
        )
