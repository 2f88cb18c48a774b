"""Rows of the timing pane: is the answer still right, and what does it take in memory?"""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import accuracy_text as words
from tcexplore.documents import memory_text as memory_words
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.session import Snapshot
from tcexplore.session.saved_tensors import kept_for_backward

ACCURACY_STYLES = {**dict.fromkeys(words.GOOD, "faster"), "not judged": "muted", "wrong": "slower"}


def accuracy_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """The verdict, its figures, every difference; nothing before it is known."""
    found = snapshot.accuracy
    if found is None:
        return
    yield BLANK
    yield from wrapped(words.describe_accuracy(found), width, ACCURACY_STYLES.get(found.verdict, "warn"))
    if said := words.format_errors(found):
        yield from wrapped(said, width)
    for difference in found.differences:
        yield from wrapped(difference, width, "warn", lead="! ")
    if said := words.describe_comparison(found):
        yield from wrapped(said, width, "muted")
    if found.verdict not in (*words.GOOD, "not judged"):
        yield from wrapped("Press L to find the compiler layer that causes it.", width, "ok", keys_only=True)


def memory_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What each side takes; nothing before it is known."""
    found = snapshot.memory
    if found is None:
        return
    yield BLANK
    yield heading("Memory")
    for name, said in memory_words.memory_figures(found, kept_for_backward(snapshot)):
        if width >= 60:
            yield row((f" {name:<13}", "muted"), said)
        else:
            yield from wrapped(f"{name}: {said}", width)
    yield from wrapped(found.method, width, "muted")
    for note in found.notes:
        yield from wrapped(note, width, "warn", lead="! ")
