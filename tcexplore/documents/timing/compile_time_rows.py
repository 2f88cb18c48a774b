"""Rows of the timing pane: where compiling spent its time."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import compile_time_text as words
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time as tree_of

COMPILE_TIME = "compile time"


def compile_time_rows(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """One row, and the tree below it when it is opened; nothing where nothing was compiled."""
    found = tree_of(snapshot)
    if not found.roots:
        return
    yield BLANK
    yield fold(COMPILE_TIME, COMPILE_TIME in opened, words.summarize_compile_time(found))
    if COMPILE_TIME not in opened:
        return
    for depth, name, seconds, share in words.span_lines(found):
        yield row((f" {seconds:>8} {share:>5}  ", "muted"), "  " * depth + name)
    beside = list(words.other_time_lines(found))
    if beside:
        yield from wrapped(words.OTHER_TIME, width, "muted")
    for name, seconds, share in beside:
        yield row((f" {seconds:>8} {share:>6} ", "muted"), name)
    for line in words.slowest_compiles(snapshot):
        yield from wrapped(line, width, "muted")
