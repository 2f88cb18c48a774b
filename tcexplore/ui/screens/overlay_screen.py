"""A screen that opens over the panes with one view to read, and closes again."""

from __future__ import annotations

from abc import abstractmethod

from tcexplore.ui.lines.search_view import SearchView
from tcexplore.ui.screens.reading_screen import ReadingScreen


class OverScreen(ReadingScreen):
    """Shows one view; rebuilt on a new width, left with escape."""

    def __init__(self) -> None:
        super().__init__()
        self._view = SearchView()

    @property
    def reader(self) -> SearchView:
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
        """Put the document into the view, for the width that there is."""
