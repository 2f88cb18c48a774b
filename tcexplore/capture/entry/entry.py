"""What of the user's file is compiled, and with which inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcexplore.events import Location


class EntryError(Exception):
    """The file, or an argument, does not say what to compile. `stage` is `file` or `arguments`."""

    def __init__(self, message: str, hint: str = "", stage: str = "file", location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.stage = stage
        self.location = location


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """What to call, how often and with what.

    `target` runs eagerly; `compiled` is the user's own compiled form of it where the file made one, else None.
    `rule` says in words which rule of the file contract hit. `unpadded` are the calls before they were padded, where
    they were.
    """

    name: str
    kind: str
    rule: str
    target: Callable[..., Any]
    calls: tuple[Call, ...]
    compiled: Callable[..., Any] | None = None
    location: Location | None = None
    notes: tuple[str, ...] = ()
    unpadded: tuple[Call, ...] = ()
