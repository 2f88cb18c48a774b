"""Fields of a record that hold events, derived from their annotations.

`tuple[X, ...]` keeps every event of type X; `X | None` keeps the last one.
"""

from __future__ import annotations

import types
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tcexplore.events import Event

Record = TypeVar("Record")


class EventField(NamedTuple):
    """A field that holds events of one type."""

    name: str
    keeps_all: bool

    def add(self, record: Record, event: Event) -> Record:
        """Return the record with one more event in this field."""
        value = (*getattr(record, self.name), event) if self.keeps_all else event
        changes: dict[str, Any] = {self.name: value}
        return replace(record, **changes)  # type: ignore[type-var]


@cache
def event_fields(record: type) -> dict[type[Event], EventField]:
    """Return the field of a dataclass that holds each type of event."""
    fields: dict[type[Event], EventField] = {}
    for name, hint in get_type_hints(record).items():
        kind = get_args(hint)[0] if get_origin(hint) in (tuple, types.UnionType) else None
        if isinstance(kind, type) and issubclass(kind, Event):
            fields[kind] = EventField(name, get_origin(hint) is tuple)
    return fields
