"""The guards of two cache entries, one against the other."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.prose import row, wrapped
from tcexplore.events import Guard
from tcexplore.session import Snapshot
from tcexplore.session.guard_diff import GuardDiff, guard_diff, guards_of
from tcexplore.session.links import guard_link

SAME = "Their guards are the same, but for checks on modules and torch itself."
NONE = "No guards were made for one of them."


def guard_diff_document(snapshot: Snapshot, one: str, other: str, width: int = 78) -> Parts:
    """The document for two entries: what differs in their guards."""
    return Parts(f"{one} and {other}", [fixed(guard_difference_rows(snapshot, one, other, width, indent=1))])


def guard_difference_rows(snapshot: Snapshot, one: str, other: str, width: int, indent: int) -> Iterator[Row]:
    """A row or two for each condition that is not in both."""
    before, after = guards_of(snapshot, one), guards_of(snapshot, other)
    if before is None or after is None:
        yield from wrapped(NONE, width, "muted", indent=indent)
        return
    found = guard_diff(before, after)
    said = f"guards of {one} and {other}: " + (f"{len(found)} of them differ" if found else "none differs")
    yield row((" " * indent + said, "muted"))
    for difference in found:
        yield from _difference(difference, one, other, indent)
    if not found:
        yield from wrapped(SAME, width, "muted", indent=indent)


def _difference(difference: GuardDiff, one: str, other: str, indent: int) -> Iterator[Row]:
    sides = (("− ", one, difference.before, "removed"), ("+ ", other, difference.after, "added"))
    for sign, graph, guard, style in sides:
        if guard is not None:
            yield row((" " * indent + sign, style), (f"{graph} ", "muted"), (_what(guard), "guard"), f" {_said(guard)}",
                      links=(guard_link(graph, guard),), location=guard.location)  # fmt: skip


def _what(guard: Guard) -> str:
    return guard.name or guard.source or ("sizes" if guard.kind == "SHAPE_ENV" else guard.kind)


def _said(guard: Guard) -> str:
    return guard.summary or " and ".join(guard.code) or guard.kind
