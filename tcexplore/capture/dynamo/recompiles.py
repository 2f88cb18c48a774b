"""Recompiles: a frame is compiled again because a guard of each earlier entry failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.failed_guard import FailedGuards
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Recompiled

_FACT = "recompiles"
_CONVERT = "torch._dynamo.convert_frame"


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `Recompiled` for each earlier entry of a frame that is compiled again, newest entry first."""
    observer = _Recompiles(hooks, project)
    hooks.watch(_FACT, f"{_CONVERT}:compute_cache_size", after=observer.sized)
    hooks.watch(_FACT, "torch._dynamo.guards:get_guard_fail_reason", after=observer.failed)
    hooks.watch(_FACT, f"{_CONVERT}:exceeds_recompile_limit", after=observer.limited)


class _Recompiles:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._guards = FailedGuards(project)
        self._frame: Any = None
        self._entries: list[Any] = []
        self._pending: list[Recompiled] = []

    def sized(self, _size: Any, frame: Any, entries: Any, *_args: Any) -> None:
        """Dynamo is about to compile `frame`, which has these entries."""
        self._frame, self._entries, self._pending = frame, _listed(entries), []

    def failed(self, said: str, manager: Any, code: Any, scope: Any, of: Any, *_args: Any, **_more: Any) -> None:
        """torch looked for the guard of one entry that failed."""
        found = self._guards.read(said, manager, code, scope, current_compile_id() or "", str(of))
        self._pending.append(found)

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


def _listed(entries: Any) -> list[Any]:
    """The cache entries, newest first in a list; older torch chains them."""
    if isinstance(entries, list):
        return entries
    listed = []
    while entries is not None:
        listed.append(entries)
        entries = entries.next
    return listed
