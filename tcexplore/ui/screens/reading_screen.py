"""What every screen with rows in it does with them: search, copy, edit."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import work
from textual.screen import Screen
from textual.widget import Widget

from tcexplore.ui import editor
from tcexplore.ui.actions import Scope, bindings
from tcexplore.ui.lines.search_view import SearchView
from tcexplore.ui.messages import HitReached, SearchCounted
from tcexplore.ui.row_text import place_of, text_of, whole_text
from tcexplore.ui.terminal import clipboard

if TYPE_CHECKING:
    from tcexplore.ui.lines.search_bar import SearchBar


class ReadingScreen(Screen[None]):
    """A screen on one or more views of rows, with a line `#footer` at its bottom; `SCOPES` has those of its actions."""

    BINDINGS = bindings("reading")
    SCOPES: ClassVar[tuple[Scope, ...]] = ("view", "reading", "app")

    def __init__(self) -> None:
        super().__init__()
        self.search_bar: SearchBar | None = None
        self._search_from = 0

    @property
    @abstractmethod
    def reader(self) -> SearchView:
        """The view that has the keys."""

    @property
    @abstractmethod
    def page(self) -> tuple[str, str]:
        """The name of the page of help, and its title."""

    @abstractmethod
    def leave(self) -> None:
        """What escape does once no search is left to end."""

    # ---- search

    async def action_search(self) -> None:
        self._search_from = self.reader.cursor
        if self.search_bar is None:
            # Textual's input takes 20 ms that the first frame does not have.
            from tcexplore.ui.lines.search_bar import SearchBar

            self.search_bar = SearchBar()
            footer = self.query_one("#footer")
            if isinstance(footer.parent, Widget):
                await footer.parent.mount(self.search_bar, before=footer)
        self.search_bar.open()

    def on_search_bar_changed(self, message: SearchBar.Changed) -> None:
        self.reader.search(message.text, self._search_from)

    def on_search_bar_closed(self, message: SearchBar.Closed) -> None:
        if self.search_bar is not None:
            self.search_bar.close()
        if not message.keep:
            self.reader.search("", 0)
            self.reader.move_to(self._search_from)
        self.reader.focus()

    def on_search_counted(self, message: SearchCounted) -> None:
        if self.search_bar is not None:
            self.search_bar.count(f"{message.at} of {message.count}{'' if message.done else '…'}")

    def on_hit_reached(self, message: HitReached) -> None:
        if not message.words:
            self.say("No search to go on with, and nothing here belongs to what is selected.")

    def action_next_match(self, by: int) -> None:
        self.reader.next_match(by)

    def action_back(self) -> None:
        if self.reader.sought is not None:
            self.reader.search("", 0)
        else:
            self.leave()

    # ---- the row under the cursor, outside the screen

    def action_edit(self) -> None:
        row = self.reader.cursor_row
        place = place_of(row) if row else None
        if place is None:
            self.say("This row stands for no line of a file.")
        elif trouble := editor.edit(self.app, place):
            self.say(trouble, "warning")

    def action_copy(self) -> None:
        row = self.reader.cursor_row
        if row is not None:
            self.say(clipboard.copy(self.app, text_of(row)))

    def action_copy_all(self) -> None:
        self._copy_all(self.reader)

    @work(group="copy", exclusive=True, exit_on_error=False)
    async def _copy_all(self, view: SearchView) -> None:
        self.say(clipboard.copy(self.app, await whole_text(view.document)))

    def say(self, text: str, severity: Literal["information", "warning"] = "information") -> None:
        """A word at the edge of the screen, in place of the one before; never read as markup."""
        self.app.clear_notifications()
        self.notify(text, severity=severity, markup=False)
