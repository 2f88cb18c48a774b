"""Is the answer still right, and what does it take in memory?"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore.documents import accuracy_text as words
from tcexplore.documents import memory_text as memory_words
from tcexplore.report.text.layout import columns, indented
from tcexplore.session import Snapshot
from tcexplore.session.saved_tensors import kept_for_backward

STYLES = {**dict.fromkeys(words.GOOD, "bold green"), "not judged": "dim", "wrong": "bold red"}


def accuracy(snapshot: Snapshot) -> Iterable[RenderableType]:
    found = snapshot.accuracy
    if found is None:
        return
    yield indented(Text(words.sentence(found), STYLES.get(found.verdict, "bold yellow")))
    if said := words.figures(found):
        yield indented(said, by=4)
    for difference in found.differences:
        yield indented(difference, "yellow", by=4)
    if said := words.conditions(found):
        yield indented(said, "dim", by=4)


def memory(snapshot: Snapshot) -> Iterable[RenderableType]:
    found = snapshot.memory
    if found is None:
        return
    yield from columns([list(row) for row in memory_words.figures(found, kept_for_backward(snapshot))])
    yield indented(found.method, "dim")
    for note in found.notes:
        yield indented(f"note: {note}", "yellow")
