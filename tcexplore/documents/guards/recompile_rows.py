"""Recompiles: which guard failed, what it compared, how near the limit is."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.events import Recompiled
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link
from tcexplore.session.recompile_count import once_each


def recompile_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """The rows of all recompiles, a blank one behind each."""
    for found, others in once_each(snapshot):
        links = (line_link(found.location),) if found.location else ()
        rows = [*_recompile(found, places(snapshot.file), width), *_others(others)]
        yield from (Row(r.spans, links, found.location) for r in rows)
        yield BLANK


def _others(others: int) -> Iterator[Row]:
    if others:
        yield row((f"   nor did {others} older {'entry' if others == 1 else 'entries'} match", "muted"))


def _recompile(found: Recompiled, where: Places, width: int) -> Iterator[Row]:
    used = f"  {found.entries} of {found.limit}" if found.entries and found.limit else ""
    yield row((f"↻ {found.of} → {found.graph}", "recompile"), (used, "warn" if found.limit_hit else "muted"),
              (f"  {where.describe(found.location)}", "muted"))  # fmt: skip
    if found.old or found.new:
        yield row(
            "   ",
            (found.old or "?", "removed"),
            (" → ", "muted"),
            (found.new or "?", "added"),
            f"  {found.failed_guard}",
        )
    elif found.failed_guard:
        yield from wrapped(found.failed_guard, width, indent=3)
    if found.reason and found.reason != found.failed_guard:
        yield from wrapped(found.reason, width, "muted", indent=3)
    if found.limit_hit:
        said = "the limit is reached: from now on this frame runs eagerly, uncompiled"
        yield from wrapped(said, width, "break", indent=3, lead="✖ ")
