"""Screens over the panes with one document to read: in full size, or in a box as high as the document."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tcexplore.documents.document import Document
from tcexplore.ui.actions import bindings
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.lines.row_view import RowView
from tcexplore.ui.screen_lines import footer
from tcexplore.ui.screens.reading_screen import ReadingScreen

_FRAME = 3
"""Lines of a box's frame and footer."""


class OverlayScreen(ReadingScreen):
    """Shows one view, rebuilt for each width, until the user presses escape."""

    CSS_PATH = Path(__file__).with_name("overlay.tcss")  # Textual resolves a bare name relative to the subclass

    def __init__(self) -> None:
        super().__init__()
        self._view = RowView()

    @property
    def reader(self) -> RowView:
        return self._view

    def leave(self) -> None:
        self.dismiss()

    def action_leave(self) -> None:
        self.leave()

    def on_mount(self) -> None:
        self._view.focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @abstractmethod
    def _show(self) -> None:
        """Put the document into the view, for the current width."""


class BoxScreen(OverlayScreen, ModalScreen[None]):
    """A box over the panes. The app's keys don't reach through a modal screen, so `SCOPES` has no `app`."""

    CSS_PATH = Path(__file__).with_name("box.tcss")

    def __init__(self, title: str) -> None:
        super().__init__()
        self._box_title = title

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._box_title)
            yield self._view
            yield RowLine(footer(self.SCOPES), id="footer")

    def _show_document(self, document: Document) -> None:
        self._view.show(document)
        self.query_one(Vertical).styles.height = len(document) + _FRAME


class AnswerScreen(BoxScreen):
    """A box with the answer to a question about two marked things."""

    BINDINGS = bindings("answer")
    SCOPES = ("view", "reading", "answer")

    def __init__(self, title: str, page: tuple[str, str], build: Callable[[int], Document]) -> None:
        """`page` is the help page's name and title; `build` returns the document for a width."""
        super().__init__(title)
        self._page = page
        self._build = build

    @property
    def page(self) -> tuple[str, str]:
        return self._page

    def _show(self) -> None:
        self._show_document(guarded(partial(self._build, self._view.text_width)))
