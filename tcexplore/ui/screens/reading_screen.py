"""Base of all screens with rows: search, copy, edit."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from textual import on, work
from textual.screen import Screen
from textual.widget import Widget

from tcexplore.documents.document import Row
from tcexplore.events import Location
from tcexplore.keymap import Scope
from tcexplore.ui.actions import bindings
from tcexplore.ui.editor import edit
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.lines.row_scan import scan
from tcexplore.ui.lines.row_view import RowView
from tcexplore.ui.lines.search import SearchBar
from tcexplore.ui.messages import CopyRequested, HitReached, SearchCounted
from tcexplore.ui.screen_lines import footer_action
from tcexplore.ui.terminal.terminal_driver import copy


class ReadingScreen(Screen[None]):
    """A screen with one or more views of rows and a line `#footer` at the bottom."""

    BINDINGS = bindings("reading")
    SCOPES: ClassVar[tuple[Scope, ...]] = ("view", "reading", "app")
    """Scopes of the actions that the screen has."""

    def __init__(self) -> None:
        super().__init__()
        self.search_bar: SearchBar | None = None
        self._search_start = 0

    @property
    @abstractmethod
    def reader(self) -> RowView:
        """The view that gets the keys."""

    @property
    @abstractmethod
    def page(self) -> tuple[str, str]:
        """Name and title of the help page."""

    @abstractmethod
    def leave(self) -> None:
        """Do what escape does when there is no search to end."""

    # ---- search

    async def action_search(self) -> None:
        self._search_start = self.reader.cursor
        if self.search_bar is None:
            self.search_bar = SearchBar()
            footer = self.query_one("#footer")
            if isinstance(footer.parent, Widget):
                await footer.parent.mount(self.search_bar, before=footer)
        self.search_bar.open()

    def on_search_bar_changed(self, message: SearchBar.Changed) -> None:
        self.reader.search(message.text, self._search_start)

    def on_search_bar_closed(self, message: SearchBar.Closed) -> None:
        if self.search_bar is not None and not message.keep:
            self.search_bar.close()
        if not message.keep:
            self.reader.search("", 0)
            self.reader.move_to(self._search_start)
        self.reader.focus()

    def on_search_counted(self, message: SearchCounted) -> None:
        if self.search_bar is not None:
            self.search_bar.show_count(f"{message.at} of {message.count}{'' if message.done else '…'}")

    def on_hit_reached(self, message: HitReached) -> None:
        if not message.label:
            self.say("No search to continue, and no highlighted row in this pane.")

    def action_next_match(self, by: int) -> None:
        self.reader.next_match(by)

    def action_back(self) -> None:
        if self.reader.search_query is not None:
            self.reader.search("", 0)
            if self.search_bar is not None:
                self.search_bar.close()
        else:
            self.leave()

    # ---- mouse

    @on(RowLine.Clicked)
    async def run_clicked_key(self, event: RowLine.Clicked) -> None:
        """Do what the clicked key of the footer does."""
        action = footer_action(self.SCOPES, event.text) if event.id == "footer" else None
        if action is not None:
            target = {"app": self.app, "view": self.reader}.get(action.scope, self)
            await self.app.run_action(action.run, target)

    # ---- copy, edit, notify

    def action_edit(self) -> None:
        row = self.reader.cursor_row
        location = _location(row) if row else None
        if location is None:
            self.say("This row has no source line.")
        elif message := edit(self.app, location):
            self.say(message, "warning")

    def action_copy(self) -> None:
        row = self.reader.cursor_row
        if row is not None:
            self.say(copy(self.app, row.text.strip() if row.copy is None else row.copy))

    def on_copy_requested(self, message: CopyRequested) -> None:
        self.say(copy(self.app, message.text))

    def action_copy_all(self) -> None:
        self._copy_all(self.reader)

    @work(group="copy", exclusive=True, exit_on_error=False)
    async def _copy_all(self, view: RowView) -> None:
        # Takes the view: Textual formats the arguments of a worker, which takes a second for a large document.
        document, texts = view.document, list[str]()

        def visit(_: int, row: Row) -> bool:
            texts.append(row.text.rstrip())
            return False

        await scan(document, range(len(document)), visit)
        self.say(copy(self.app, "\n".join(texts)))

    def say(self, text: str, severity: Literal["information", "warning"] = "information") -> None:
        """Notify the user, replacing the previous message; the text is never parsed as markup."""
        self.app.clear_notifications()
        self.notify(text, severity=severity, markup=False)


def _location(row: Row) -> Location | None:
    """Return the source line that the row stands for."""
    if row.location is not None:
        return row.location
    link = next((link for link in row.links if link.kind == "line"), None)
    return Location(link.where, int(link.name)) if link else None
