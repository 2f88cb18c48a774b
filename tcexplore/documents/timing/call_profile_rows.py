"""Rows of the timing pane: where the time of one call goes."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.call_profile_text import headline, lines
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row
from tcexplore.session import Snapshot

FOLD = "one call"


def call_profile(snapshot: Snapshot, opened: frozenset[str]) -> Iterator[Row]:
    """One row, and the parts below it when it is opened; nothing before it is known."""
    found = snapshot.call_profile
    if found is None:
        return
    yield BLANK
    yield fold(FOLD, FOLD in opened, headline(found))
    if FOLD in opened:
        for time, share, name in lines(found):
            yield row((f" {time:>8} {share:>5}  ", "muted"), name)
