"""Recompiles of frames, and new captures of a backward by compiled autograd."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tcexplore.capture.dynamo.failed_guard import FailedGuards
from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BackwardCaptured, Recompiled
from tcexplore.torch_text.failure_causes import BACKEND_MATCH, OTHER_BACKEND

_FACT = "recompiles"
_CONVERT = "torch._dynamo.convert_frame"

_COMPILER = 5
"""The position of `compiler_fn` among the arguments of `_compile`."""

_BACKWARD_FACT = "reasons for recaptured backwards"
_VERBOSE_SYMBOL = "torch._dynamo.compiled_autograd:snapshot_verbose_logging_enabled"
_BACKWARD_REASONS = "compiled_autograd_compile_reasons"


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `Recompiled` for each earlier entry of a recompiled frame, newest first, and each `BackwardCaptured`."""
    observer = _RecompileObserver(hooks, user_files)
    hooks.watch(_FACT, f"{_CONVERT}:compute_cache_size", after=observer.entries_counted)
    hooks.watch(_FACT, f"{_CONVERT}:_compile", before=observer.compile_started)
    hooks.watch(_FACT, "torch._dynamo.guards:get_guard_fail_reason", after=observer.guard_failed)
    hooks.watch(_FACT, f"{_CONVERT}:exceeds_recompile_limit", after=observer.limit_checked)
    _install_backward(hooks, trace)


def _install_backward(hooks: Hooks, trace: StructuredTrace) -> None:
    """Make torch record its reasons, which it does only with verbose logging, and subscribe to them."""

    def enable(_original: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: True

    def captured(event: TraceEvent) -> None:
        """Emit the last reason: the event lists those of all captures, each as `!1: Cache miss due to …`."""
        for reason in json.loads(event.payload or "[]")[-1:]:
            backward, _, text = reason.removeprefix("!").partition(": ")
            hooks.emit(BackwardCaptured(backward=backward, reason=text))

    hooks.wrap(_BACKWARD_FACT, _VERBOSE_SYMBOL, enable)
    trace.subscribe(_BACKWARD_FACT, _BACKWARD_REASONS, captured)


class _RecompileObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._guards = FailedGuards(user_files)
        self._frame: Any = None
        self._entries: list[Any] = []
        self._backend: Any = None
        self._pending: list[Recompiled] = []

    def entries_counted(self, _size: Any, frame: Any, entries: Any, *_args: Any) -> None:
        """Remember the frame that Dynamo is about to compile, and its cache entries."""
        self._frame, self._entries, self._pending = frame, _entry_list(entries), []

    def compile_started(self, *args: Any, **_kwargs: Any) -> None:
        """Remember the backend that the frame is compiled for."""
        self._backend = innermost_backend(args[_COMPILER]) if len(args) > _COMPILER else None

    def guard_failed(
        self, message: str, manager: Any, code: Any, scope: Any, entry: Any, *_args: Any, **_kwargs: Any
    ) -> None:
        """Read the failed guard of one entry, for which torch composed a message."""
        failed = self._guards.read(message, manager, code, scope, current_compile_id() or "", str(entry))
        backend = getattr(getattr(manager, "cache_entry", None), "backend", self._backend)
        other = self._backend is not None and backend is not self._backend and backend != self._backend
        if other:
            failed = replace(failed, kind="backend", reason=OTHER_BACKEND, failed_guard="", old="", new="", name="")
        # An entry whose guards all hold comes first: of those of other backends, only the first is emitted.
        self._pending.insert(0 if other and BACKEND_MATCH in message else len(self._pending), failed)

    def limit_checked(self, result: tuple[bool, str], size: Any, *_args: Any) -> None:
        """Emit the recompiles: counting the entries is torch's last step before it compiles or gives up."""
        if not self._pending:
            self._request_reasons()
        hit, limit = result[0], getattr(torch._dynamo.config, result[1] or "recompile_limit")
        entries = size.num_cache_entries + (0 if hit else 1)
        usable = [event for event in self._pending if event.kind != "backend"]
        for event in usable or self._pending[:1]:
            self._hooks.emit(replace(event, entry_count=entries, limit=limit, limit_hit=hit))
        self._frame, self._entries, self._pending = None, [], []

    def _request_reasons(self) -> None:
        """Make torch look for the failed guards.

        If an object that is compared by identity changed, such as None for a tensor, torch compiles again without
        reporting a recompile or a reason.
        """
        from torch._dynamo.guards import get_guard_fail_reason

        for entry in reversed(self._entries):
            backend = getattr(entry, "backend", None) if self._backend is None else self._backend
            get_guard_fail_reason(
                entry.guard_manager, entry.code, self._frame.f_locals, entry.compile_id, backend, skip_logging=True
            )


def innermost_backend(callback: Any) -> Any:
    """Return the backend as cache entries store it, from a callback that wraps it."""
    while (inner := getattr(callback, "_torchdynamo_orig_backend", None)) is not None:
        callback = inner
    return callback


def _entry_list(entries: Any) -> list[Any]:
    """Return the cache entries as a list: older torch links them."""
    if isinstance(entries, list):
        return entries
    as_list = []
    while entries is not None:
        as_list.append(entries)
        entries = entries.next
    return as_list
