"""The cache entries of a frame, asked one by one in torch's order: would this one be used again?"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo.cache_size import compute_cache_size, exceeds_recompile_limit  # as nobody watches them
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.guards import get_guard_fail_reason_helper
from torch._guards import CompileId

from tcexplore.capture.dynamo.failed_guard import FailedGuards
from tcexplore.capture.recompile_check.frame_binding import Entered
from tcexplore.events import EntryAnswer
from tcexplore.events.compile_ids import frame_number


def entries_of(code: CodeType, backend: Any = None) -> list[Any]:
    """The cache entries of a frame's code in the order in which torch tries them; of one backend where it is given."""
    found = _debug_get_cache_entry_list(code)
    return [entry for entry in found if backend is None or entry.backend == backend]


def asked(entry: Any, frame: Entered, guards: FailedGuards) -> EntryAnswer:
    """Whether an entry would be used, by the guard manager that torch itself asks; else the guard that fails first."""
    graph = str(entry.compile_id)
    manager = entry.guard_manager
    invalid = getattr(manager, "invalidation_reason", "")
    if not invalid and manager.check_verbose(frame.scope).result:
        return EntryAnswer(graph=graph, matches=True)
    said = invalid or get_guard_fail_reason_helper(manager, frame.scope, entry.compile_id, entry.backend)
    return EntryAnswer(
        graph=graph, matches=False, failed=guards.read(said, manager, frame.code, frame.scope, "", graph)
    )


def limit_hit(frame: Entered, entries: Sequence[Any]) -> str:
    """The limit that keeps torch from compiling the frame once more, empty where none does."""
    if not entries:
        return ""
    found = SimpleNamespace(f_locals=frame.scope, f_code=frame.code)
    try:
        size = compute_cache_size(found, list(entries))
    except (TypeError, AttributeError):  # before torch 2.12 the entries are a chain, and its head is asked for
        size = compute_cache_size(found, entries[0])
    newest = max(int(str(entry.compile_id).rpartition("/")[2]) for entry in entries)
    frame_id = int(frame_number(str(entries[0].compile_id)))
    hit, name = exceeds_recompile_limit(size, CompileId(frame_id=frame_id, frame_compile_id=newest + 1))
    return name if hit else ""


def stance() -> str:
    """`torch.compiler.set_stance`, `default` where nothing was said."""
    found: str = getattr(getattr(torch._dynamo.eval_frame, "_stance", None), "stance", "default")
    return found
