"""Graph breaks, one per place, with torch's registry entry."""

from __future__ import annotations

import json
import os
import re
from functools import cached_property
from typing import Any, NamedTuple

from tcexplore.capture.dynamo.break_reasons import Reason, Reasons, explain_reason
from tcexplore.capture.dynamo.trace_position import current_compile_id, user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import GraphBreak, Location

_FACT = "graph breaks"
_NOT_A_BREAK = frozenset({"Observed exception", "Dynamo recompile limit exceeded"})
"""The first is an exception that the user's own code raised; the second is a skipped frame, which has its own event."""

_EXPRESSION = re.compile(r'^[\w.]+$|^f?"|" \+ ')


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `GraphBreak` for each new place that breaks, also if `fullgraph=True` makes it an error."""
    observer = _BreakObserver(hooks, user_files)
    translator = "torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break"
    hooks.watch(_FACT, translator, before=observer.break_logged)
    hooks.watch(_FACT, "torch._dynamo.convert_frame:_compile", failed=observer.compile_failed)


class _BreakObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._reasons = Reasons.of_hooks(hooks)
        self._registry = BreakRegistry(hooks)
        self._emitted: set[tuple[tuple[Location, ...], str]] = set()

    def break_logged(self, _translator: Any, _code_options: Any, reason: str, exc: Any) -> None:
        """Emit a break that Dynamo logs. Dynamo marks `exc` as logged, since it propagates through several frames."""
        if not getattr(exc, "logged", False):
            self._emit(exc, reason)

    def compile_failed(self, error: Exception, *_args: Any, **_kwargs: Any) -> None:
        """Emit a break that Dynamo does not log: with `fullgraph=True` it only raises."""
        if type(error).__name__ in ("Unsupported", "UserError") and not getattr(error, "logged", False):
            self._emit(error)

    def _emit(self, error: Any, logged: str = "") -> None:
        reason, *further = self._reasons.of_error(error)
        if _NOT_A_BREAK & {reason.kind, *(other.kind for other in further)}:
            return
        stack = user_stack(self._user_files, getattr(error, "real_stack", None))
        key = (stack.inside, reason.kind)
        if key not in self._emitted:
            self._emitted.add(key)
            sentence = explain_reason(reason, further, logged)
            self._hooks.emit(self._graph_break(reason, sentence, stack.whole))

    def _graph_break(self, reason: Reason, sentence: str, stack: tuple[Location, ...]) -> GraphBreak:
        entry = self._registry.entry(reason.kind)
        location = stack[-1] if stack else None
        return GraphBreak(
            graph=current_compile_id() or "",
            id=entry.id if entry else None,
            kind=reason.kind,
            reason=sentence,
            explanation=reason.explanation,
            hints=reason.hints,
            context=reason.context,
            registry_explanation=entry.explanation if entry else "",
            registry_hints=entry.hints if entry else (),
            url=self._registry.link(reason.kind),
            location=location,
            code=self._user_files.line(location),
            stack=stack,
        )


class RegistryEntry(NamedTuple):
    """The registry's id, explanation and hints for one kind of graph break."""

    id: str
    explanation: str
    hints: tuple[str, ...]


class BreakRegistry:
    """torch's registry of graph breaks, which torch installs as `torch/_dynamo/graph_break_registry.json`."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    @cached_property
    def _entries(self) -> dict[str, RegistryEntry]:
        import torch._dynamo

        path = os.path.join(os.path.dirname(torch._dynamo.__file__), "graph_break_registry.json")
        try:
            with open(path, encoding="utf-8") as file:
                registry: dict[str, list[dict[str, Any]]] = json.load(file)
        except (OSError, ValueError) as error:
            self._hooks.report_missing("graph break ids", "torch._dynamo:graph_break_registry.json", str(error))
            return {}
        # A kind may have several ids; torch's own links use the last one.
        return {version["Gb_type"]: _entry(id_, versions) for id_, versions in registry.items() for version in versions}

    def entry(self, kind: str) -> RegistryEntry | None:
        """Return the entry of a `gb_type`, None if the registry does not list it."""
        return self._entries.get(kind)

    def link(self, kind: str) -> str:
        """Return the address of torch's page on a kind, empty if this torch has none."""
        from torch._dynamo import exc

        find = getattr(exc, "get_gbid_documentation_link", None)
        return (find(kind) or "") if find else ""


def _entry(id_: str, versions: list[dict[str, Any]]) -> RegistryEntry:
    """Return the newest version, which comes first, unless its explanation is a Python expression."""
    readable = [version for version in versions if not _EXPRESSION.search(version["Explanation"])]
    hints = _join_hints((readable or versions)[0]["Hints"])
    return RegistryEntry(id_, readable[0]["Explanation"] if readable else "", hints)


def _join_hints(pieces: list[str]) -> tuple[str, ...]:
    """Return whole hints: the registry cuts a long hint after a space, where torch's source breaks the string."""
    return tuple(filter(None, "".join(p if p.endswith(" ") else p + "\n" for p in pieces).split("\n")))
