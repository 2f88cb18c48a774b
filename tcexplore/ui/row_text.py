"""Where rows point, and what they say, outside the screen."""

from __future__ import annotations

from tcexplore.documents.document import Document, Row
from tcexplore.events import Location
from tcexplore.ui.lines.row_scan import scan


def place_of(row: Row) -> Location | None:
    """The line of a file that the row stands for."""
    if row.location is not None:
        return row.location
    link = next((link for link in row.links if link.kind == "line"), None)
    return Location(link.where, int(link.name)) if link else None


def text_of(row: Row) -> str:
    """What copying the row gives."""
    return row.text.strip() if row.copy is None else row.copy


async def whole_text(document: Document) -> str:
    """The text of all rows, read in slices."""
    texts: list[str] = []

    def visit(_: int, row: Row) -> bool:
        texts.append(row.text.rstrip())
        return False

    await scan(document, range(len(document)), visit)
    return "\n".join(texts)
