"""A fault in one document costs its rows, not the app."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.documents.document import Document, Row, Span, chapters, start
from tcexplore.documents.document_parts import message


class Guarded:
    """A document that shows a failure to build a row in that row's place."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.title = document.title
        self.start = start(document)
        self.chapters = chapters(document)
        self._length = len(document)

    def __len__(self) -> int:
        return self._length

    def row(self, index: int) -> Row:
        try:
            return self._document.row(index)
        except Exception as error:
            return Row((Span(f" this row cannot be shown: {_words(error)}", "error"),))


def guarded(build: Callable[[], Document]) -> Document:
    """The document that `build` makes; one that says why, where it fails."""
    try:
        return Guarded(build())
    except Exception as error:
        return message(
            "This pane cannot be shown.",
            _words(error),
            "That is a fault in tcexplore, not in your file; the other panes go on.",
            style="error",
        )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
