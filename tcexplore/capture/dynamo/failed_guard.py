"""The guard of a cache entry that failed: its cause, both values, and the user's line.

torch gives some causes only as text, such as `tensor 'x' size mismatch at index 0. expected 4, actual 5`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from types import CodeType
from typing import Any

import torch

from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.capture.guards.guards import guard_location
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location, Recompiled, ValueOrigin
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.failure_causes import Cause, ComparedValues, cause_of_text, cause_of_values, kind_of_check
from tcexplore.torch_text.guard_text import Aspect, compare_code, split_check


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
        cause = cause_of_text(check.code.strip(), grad_enabled=torch.is_grad_enabled())
        cause = cause or _cause_of_code(manager, scope, check.code)
        return Recompiled(
            graph=graph,
            failed_entry=entry,
            failed_guard=readable_source(check.code),
            reason=cause.reason,
            old=cause.old,
            new=cause.new,
            location=self._location(manager, cause, check.place, code) or self._reader_or_caller(entry, cause.name),
            kind=cause.kind,
            name=cause.name,
            dim=cause.dim,
            origin=value_origin(check.code, cause.name, code),
        )

    def _location(self, manager: Any, cause: Cause, place: tuple[str, int, str] | None, code: Any) -> Location | None:
        """Return the line behind the guard, or the compiled function."""
        location = guard_location(manager, readable_source(cause.name)) or (place and self._user_files.find(*place))
        if location or not self._user_files.owns(code.co_filename):
            return location or None
        return self._user_files.location_of(code)

    def _reader_or_caller(self, entry: str, name: str) -> Location | None:
        """Return the line for a guard in library code: the first that reads the value, or that called the library."""
        return self._user_files.readers.get(entry, {}).get(name) or self._user_files.callers.get(entry)


# ---- causes from values


def _cause_of_code(manager: Any, scope: Any, code: str) -> Cause:
    root = getattr(manager, "global_scope", None) or {}
    names = {**(getattr(manager, "closure_vars", None) or {}), "G": root.get("G", {}), "L": scope}
    values = compare_values(code, {**names, **dict(scope)})
    return cause_of_values(values, readable_source(code))._replace(kind=kind_of_check(code, values))


_LOCAL = re.compile(r"\bL\['([^']+)'\](?P<further>[.\[])?")


def value_origin(code: str, name: str, frame: CodeType) -> ValueOrigin:
    """Return where a guarded value comes from."""
    if "G['" in code:
        return "global"
    local = _LOCAL.search(code)
    variable = local[1] if local else re.split(r"[.\[]", name.removeprefix("len("), maxsplit=1)[0]
    if variable in frame.co_freevars:
        return "closure"
    arguments = frame.co_varnames[: frame.co_argcount + frame.co_kwonlyargcount + 2]
    if variable not in arguments:
        return ""
    return "attribute" if re.search(rf"\b{re.escape(variable)}\.", name) else "argument"


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
