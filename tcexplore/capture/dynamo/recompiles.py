"""Recompiles of frames with the guard that failed, and new captures of a backward by compiled autograd."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any

import torch

from tcexplore.capture.dynamo.guards import guard_location
from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.tensor_descriptions import tensor_facts
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BackwardCaptured, Location, Recompiled, ValueOrigin
from tcexplore.torch_text.dynamo_names import describe_carried, is_carried, name_wrapped, readable_source, wraps_module
from tcexplore.torch_text.guard_text import (
    BACKEND_MATCH,
    OTHER_BACKEND,
    Aspect,
    Cause,
    ComparedValues,
    cause_of_text,
    cause_of_values,
    compare_code,
    kind_of_check,
    split_check,
)

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
        """Read the failed guard of one entry, for which torch composed a message.

        An entry that was invalidated, since an object that it guards was freed, has no code anymore.
        """
        code = code or getattr(self._frame, "f_code", None)
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


class FailedGuards:
    """Reads torch's reports of failed guards."""

    def __init__(self, user_files: UserFiles) -> None:
        self._user_files = user_files

    def read(self, message: str, manager: Any, code: Any, scope: Any, graph: str, entry: str) -> Recompiled:
        """Return the record of a guard that failed for the locals `scope` of a frame with this `code`.

        `message` is torch's text, `manager` the guard manager of the cache entry with the compile id `entry`, and
        `graph` the compile id of the graph that is compiled instead.
        """
        text = message.removeprefix(f"{entry}: ").split("\nUser stack trace:")[0]
        check = split_check(text)
        if code is not None and wraps_module(code):
            check = check._replace(code=name_wrapped(check.code))
            scope = {**scope, "self": scope.get("fn")}
        cause = cause_of_text(check.code.strip(), grad_enabled=torch.is_grad_enabled())
        cause = cause or _cause_of_code(manager, scope, check.code)
        return Recompiled(
            graph=graph,
            failed_entry=entry,
            failed_guard=readable_source(check.code),
            reason=describe_carried(cause.reason),
            old=cause.old,
            new=cause.new,
            location=self._location(manager, cause, check.place, code)
            or self._user_files.reader_or_caller(entry, cause.name),
            kind=cause.kind,
            name=cause.name,
            dim=cause.dim,
            origin=value_origin(check.code, cause.name, code),
        )

    def _location(self, manager: Any, cause: Cause, place: tuple[str, int, str] | None, code: Any) -> Location | None:
        """Return the line behind the guard, or the compiled function, if torch names one."""
        location = guard_location(manager, readable_source(cause.name)) or (place and self._user_files.find(*place))
        if location or code is None or not self._user_files.owns(code.co_filename):
            return location or None
        return self._user_files.location_of(code)


# ---- causes from values


def _cause_of_code(manager: Any, scope: Any, code: str) -> Cause:
    root = getattr(manager, "global_scope", None) or {}
    names = {**(getattr(manager, "closure_vars", None) or {}), "G": root.get("G", {}), "L": scope}
    values = compare_values(code, {**names, **dict(scope)})
    return cause_of_values(values, readable_source(code))._replace(kind=kind_of_check(code, values))


_METADATA = r"(?:size|stride|storage_offset|dim)\(\)|shape\b|ndim\b"
"""What a guard reads of a tensor that is an argument itself."""

_LOCAL = re.compile(r"\bL\['([^']+)'\](?P<further>[.\[])?")


def value_origin(code: str, name: str, frame: CodeType | None) -> ValueOrigin:
    """Return where a guarded value comes from; `frame` is the code of the frame, None for a guard outside of frames."""
    if is_carried(code) or is_carried(name):
        return "break"
    if "G['" in code:
        return "global"
    local = _LOCAL.search(code)
    variable = local[1] if local else re.split(r"[.\[]", name.removeprefix("len("), maxsplit=1)[0]
    if frame is None:
        return ""
    if wraps_module(frame) and variable == "self":
        return "attribute"
    if variable in frame.co_freevars:
        return "closure"
    arguments = frame.co_varnames[: frame.co_argcount + frame.co_kwonlyargcount + 2]
    if variable not in arguments:
        return ""
    return "attribute" if re.search(rf"\b{re.escape(variable)}(?:\[[^\]]*\])*\.(?!{_METADATA})", name) else "argument"


MAX_LENGTH = 80


def compare_values(code: str, scope: Mapping[str, Any]) -> ComparedValues:
    """Return both sides of a guard's code, the new one evaluated as torch does it."""
    return compare_code(code, partial(_evaluate, dict(scope)))


def value_text(value: object) -> str:
    """Return a short text: a constant as a Python literal, a tensor by its facts, another object by its type."""
    facts = tensor_facts(value)
    if facts:
        return facts.text
    if isinstance(value, bool | int | float | complex | str | bytes | tuple | type(None)):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
    return str(getattr(value, "__qualname__", f"<{type(value).__name__}>"))


def _evaluate(scope: dict[str, Any], source: str, aspect: Aspect) -> str:
    """Evaluate a source as torch does to find the failed guard; return an empty text if that does not work."""
    try:
        value = eval(source, scope)
    except Exception:  # noqa: BLE001  the call may lack an attribute or an index, and the user's own code may raise anything
        return ""
    if aspect == "type":
        return type(value).__name__
    if aspect == "code":
        return getattr(value, "co_qualname", "") or getattr(value, "co_name", "")
    return value_text(value)
