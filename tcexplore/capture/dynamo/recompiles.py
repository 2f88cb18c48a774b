"""Recompiles: a frame is compiled again because a guard of each earlier entry failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.recompile_text import Cause, cause_of_text, cause_of_values
from tcexplore.capture.fx.source_names import readable_source
from tcexplore.capture.guards.places import place_of
from tcexplore.capture.guards.text import split_check
from tcexplore.capture.guards.values import compared
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.project import Project
from tcexplore.capture.trace import StructuredTrace
from tcexplore.events import Location, Recompiled

_FACT = "recompiles"
_CONVERT = "torch._dynamo.convert_frame"


def install(hooks: Hooks, _trace: StructuredTrace, project: Project) -> None:
    """Emit a `Recompiled` for each earlier entry of a frame that is compiled again, newest entry first."""
    observer = _Recompiles(hooks, project)
    hooks.watch(_FACT, f"{_CONVERT}:compute_cache_size", after=observer.sized)
    hooks.watch(_FACT, "torch._dynamo.guards:get_guard_fail_reason", after=observer.failed)
    hooks.watch(_FACT, f"{_CONVERT}:exceeds_recompile_limit", after=observer.limited)


class _Recompiles:
    def __init__(self, hooks: Hooks, project: Project) -> None:
        self._hooks = hooks
        self._project = project
        self._frame: Any = None
        self._entries: list[Any] = []
        self._pending: list[Recompiled] = []

    def sized(self, _size: Any, frame: Any, entries: Any, *_args: Any) -> None:
        """Dynamo is about to compile `frame`, which has these entries."""
        self._frame, self._entries, self._pending = frame, _listed(entries), []

    def failed(self, said: str, manager: Any, code: Any, scope: Any, of: Any, *_args: Any) -> None:
        """torch looked for the guard of one entry that failed."""
        self._pending.append(self._recompiled(said, manager, code, scope, str(of)))

    def limited(self, result: tuple[bool, str], size: Any, *_args: Any) -> None:
        """torch counted the entries, the last thing before it compiles or gives up."""
        if not self._pending:
            self._ask()
        hit, limit = result[0], getattr(torch._dynamo.config, result[1] or "recompile_limit")
        entries = size.num_cache_entries + (0 if hit else 1)
        for event in self._pending:
            self._hooks.emit(replace(event, entries=entries, limit=limit, limit_hit=hit))
        self._frame, self._entries, self._pending = None, [], []

    def _ask(self) -> None:
        """Where an object that is compared by identity changed, such as None for a tensor, torch compiles again
        without calling it a recompile, and without a reason; it gives one when asked."""
        from torch._dynamo.guards import get_guard_fail_reason

        for entry in reversed(self._entries):
            backend = getattr(entry, "backend", None)
            get_guard_fail_reason(
                entry.guard_manager, entry.code, self._frame.f_locals, entry.compile_id, backend, skip_logging=True
            )

    def _recompiled(self, said: str, manager: Any, code: Any, scope: Any, of: str) -> Recompiled:
        text = said.removeprefix(f"{of}: ").split("\nUser stack trace:")[0]
        failed = split_check(text)
        cause = cause_of_text(failed.code.strip(), grad_enabled=torch.is_grad_enabled()) or self._by_value(
            manager, scope, failed.code
        )
        return Recompiled(
            graph=current_compile_id() or "",
            of=of,
            failed_guard=readable_source(failed.code),
            reason=cause.reason,
            old=cause.old,
            new=cause.new,
            location=self._location(manager, cause, failed.place, code),
        )

    def _by_value(self, manager: Any, scope: Any, code: str) -> Cause:
        root = getattr(manager, "global_scope", None) or {}
        names = {**(getattr(manager, "closure_vars", None) or {}), "G": root.get("G", {}), "L": scope}
        return cause_of_values(compared(code, {**names, **dict(scope)}), readable_source(code))

    def _location(self, manager: Any, cause: Cause, place: tuple[str, int, str] | None, code: Any) -> Location | None:
        """The line behind the guard, else the function that was compiled."""
        found = place_of(manager, readable_source(cause.what)) or (place and self._project.find(*place))
        if found or not self._project.owns(code.co_filename):
            return found or None
        return self._project.location(code.co_filename, code.co_firstlineno, code.co_name)


def _listed(entries: Any) -> list[Any]:
    """The cache entries, newest first in a list; older torch chains them."""
    if isinstance(entries, list):
        return entries
    listed = []
    while entries is not None:
        listed.append(entries)
        entries = entries.next
    return listed
