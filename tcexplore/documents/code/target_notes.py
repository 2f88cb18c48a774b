"""Rows above code for a device: what it is, what could not be lowered, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import targets_text as words
from tcexplore.documents.document import Row
from tcexplore.documents.location_text import places
from tcexplore.documents.prose import BLANK, fold, wrapped
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link

ASSUMED = "target assumptions"
"""The fold of what was assumed."""


def target_rows(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Nothing for the device in the machine."""
    said = words.describe_target(snapshot)
    if not said:
        return
    yield from wrapped(said, width, "muted")
    for skipped in snapshot.code.not_lowered:
        yield from wrapped(words.describe_not_lowered(skipped), width, "warn", lead="! ")
    where = places(snapshot.file).describe
    for asked in snapshot.asked:
        place = asked.location
        own = (line_link(place),) if place else ()
        before = f"{where(place)}: " if place else ""
        yield from wrapped(
            before + words.describe_device_query(asked), width, "warn", lead="! ", location=place, links=own
        )
    notes = list(words.list_assumptions(snapshot))
    if notes:
        opened = ASSUMED in toggled
        yield fold(ASSUMED, opened, (f"{count(len(notes), 'assumption')} where the device would be asked", "muted"))
        for note in notes if opened else ():
            yield from wrapped(note, width, "muted", indent=3)
    yield BLANK
