"""The entry of the user's file and its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch.utils import _pytree as pytree

from tcexplore.events import Location


class EntryError(Exception):
    """The file or the arguments do not define an entry."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        stage: Literal["file", "arguments"] = "file",
        location: Location | None = None,
    ) -> None:
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

    def map_leaves(self, change: Callable[[Any], Any]) -> Call:
        """Return the call with each leaf of its arguments changed."""
        return Call(pytree.tree_map(change, self.args), pytree.tree_map(change, dict(self.kwargs)))


@dataclass(frozen=True, slots=True)
class Entry:
    """What to compile, and the calls to make."""

    name: str
    kind: Literal["module", "function"]
    rule: str
    """The rule of the file contract that selected the entry, as a phrase."""
    target: Callable[..., Any]
    """The eager form."""
    calls: tuple[Call, ...]
    compiled: Callable[..., Any] | None = None
    """The target as the file compiled it, or None if the file does not compile it."""
    location: Location | None = None
    notes: tuple[str, ...] = ()
    unpadded: tuple[Call, ...] = ()
    """The calls before they were padded, or nothing if they are not padded."""
