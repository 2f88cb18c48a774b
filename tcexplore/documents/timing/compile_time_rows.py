"""Rows of the timing pane: where compiling spent its time."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import compile_time_text as words
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time as tree_of

FOLD = "compile time"


def compile_time(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """One row, and the tree below it when it is opened; nothing where nothing was compiled."""
    found = tree_of(snapshot)
    if not found.roots:
        return
    yield BLANK
    yield fold(FOLD, FOLD in opened, words.headline(found))
    if FOLD not in opened:
        return
    for depth, name, seconds, share in words.lines(found):
        yield row((f" {seconds:>8} {share:>5}  ", "muted"), "  " * depth + name)
    beside = list(words.beside(found))
    if beside:
        yield from wrapped(words.BESIDE, width, "muted")
    for name, seconds, share in beside:
        yield row((f" {seconds:>8} {share:>6} ", "muted"), name)
    for line in words.kernels(snapshot):
        yield from wrapped(line, width, "muted")
