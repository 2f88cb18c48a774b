"""Rows of the timing pane: where the time of one call goes."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.call_profile_text import profile_lines, summarize_profile
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row
from tcexplore.session import Snapshot

CALL_PROFILE = "one call"


def call_profile_rows(snapshot: Snapshot, opened: frozenset[str]) -> Iterator[Row]:
    """One row, and the parts below it when it is opened; nothing before it is known."""
    found = snapshot.call_profile
    if found is None:
        return
    yield BLANK
    yield fold(CALL_PROFILE, CALL_PROFILE in opened, summarize_profile(found))
    if CALL_PROFILE in opened:
        for time, share, name in profile_lines(found):
            yield row((f" {time:>8} {share:>5}  ", "muted"), name)
