"""Base of all screens with rows: search, copy, edit; and of those over the panes with one document to read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from tcexplore.documents.document import Document, Row
from tcexplore.events import Location
from tcexplore.keymap import TO_PANES, Scope, keys_of
from tcexplore.ui.actions import bindings, footer, footer_action
from tcexplore.ui.messages import CopyRequested, HitReached, SearchCounted
from tcexplore.ui.row_line import RowLine
from tcexplore.ui.row_search import SearchBar, scan
from tcexplore.ui.row_view import RowView, guarded
from tcexplore.ui.terminal_driver import copy
from tcexplore.ui.user_files import edit


class ReadingScreen(Screen[None]):
    """A screen with one or more views of rows and a line `#footer` at the bottom."""

    BINDINGS = bindings("reading")
    SCOPES: ClassVar[tuple[Scope, ...]] = ("view", "reading", "app")
    """Scopes of the actions that the screen has."""

    def __init__(self) -> None:
        super().__init__()
        self.search_bar: SearchBar | None = None
        self._search_start = 0
        self._searched: RowView | None = None
        """The view that the search line belongs to, as long as it is open."""

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
        self._searched = self.reader
        self.search_bar.open()

    def on_search_bar_changed(self, message: SearchBar.Changed) -> None:
        self.reader.search(message.text, self._search_start)

    def on_search_bar_closed(self, message: SearchBar.Closed) -> None:
        if self.search_bar is not None and not message.keep:
            self.search_bar.close()
            self._searched = None
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
        searched = self._searched or self.reader
        if self._searched is None and searched.search_query is None:
            self.leave()
            return
        searched.search("", 0)
        self._searched = None
        if self.search_bar is not None:
            self.search_bar.close()

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


# ---- screens over the panes


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

    async def on_key(self, event: Key) -> None:
        """Leave for a pane by its key: the panes are in view, and a study goes on without its screen."""
        pane = next((action for action in TO_PANES if event.key in keys_of(action.name)), None)
        if pane is not None and not self.is_modal:
            event.stop()
            while len(self.app.screen_stack) > 1:
                self.app.pop_screen()
            await self.app.run_action(pane.run, self.app.screen)

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
