"""Documents that show their own exceptions instead of crashing the app."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.documents.document import Document, Row, Span, chapters, message, start


class GuardedDocument:
    """A document that shows an exception from building a row in place of that row."""

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
        except Exception as error:  # noqa: BLE001  a bug in one row must not take down the app
            return Row((Span(f" this row cannot be shown: {_describe(error)}", "error"),))


def guarded(build: Callable[[], Document]) -> Document:
    """Return the document that `build` returns, or one with the exception that it raises."""
    try:
        return GuardedDocument(build())
    except Exception as error:  # noqa: BLE001  a bug in one document must not take down the app
        return message(
            "This pane cannot be shown.",
            _describe(error),
            "This is a bug in tcexplore, not in your file; the other panes still work.",
            style="error",
        )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
