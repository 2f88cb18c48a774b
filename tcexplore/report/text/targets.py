"""What is to be said of code for a device that is not in the machine."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from tcexplore.documents import targets_text as words
from tcexplore.documents.paths import at
from tcexplore.report.text.layout import indented
from tcexplore.session import Snapshot


def target(snapshot: Snapshot) -> Iterable[RenderableType]:
    """The graphs without code, the lines that ask for the device, and what was assumed."""
    if said := words.about(snapshot):
        yield indented(said, "dim")
    for skipped in snapshot.code.not_lowered:
        yield indented(words.not_lowered(skipped), "bold yellow")
    for asked in snapshot.asked:
        where = f"{at(asked.location, snapshot.file)}: " if asked.location else ""
        yield indented(where + words.asked(asked), "yellow")
    for note in words.assumptions(snapshot):
        yield indented(note, "dim")
