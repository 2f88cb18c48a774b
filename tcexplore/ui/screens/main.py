"""The main screen: the lines around the panes, the selection that all panes share, and the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from textual import events, work
from textual.app import ComposeResult
from textual.screen import Screen

from tcexplore.events import Standby
from tcexplore.session import Session
from tcexplore.ui import clipboard, editor, layout
from tcexplore.ui.actions import bindings
from tcexplore.ui.footer import footer
from tcexplore.ui.header import history_line, title_line, verdict_line
from tcexplore.ui.messages import CursorMoved, RowEntered, SearchCounted
from tcexplore.ui.panes import PANES
from tcexplore.ui.panes.board import Board
from tcexplore.ui.panes.pane import Pane
from tcexplore.ui.places import place_of, text_of, whole_text
from tcexplore.ui.row_line import RowLine
from tcexplore.ui.selection import Selection

if TYPE_CHECKING:
    from tcexplore.ui.search_bar import SearchBar


class MainScreen(Screen[None]):
    """Follows the app's session; the panes do the showing."""

    BINDINGS = bindings("screen")

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.selection = Selection()
        self.board = Board()
        self.search_bar: SearchBar | None = None
        self._title = RowLine(title_line(self.session, None, 0.0), id="title")
        self._verdict = RowLine(verdict_line(self.session), id="verdict")
        self._tabs = RowLine(layout.tabs(self.board.current), id="tabs")
        self._history = RowLine(history_line(self.session), id="history")
        self._search_from = 0

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._verdict
        yield self._tabs
        yield self.board
        yield self._history
        yield RowLine(footer, id="footer")

    # ---- the session

    def follow(self, session: Session, standby: Standby | None, now: float) -> None:
        """Show the session: the lines, the panes in view, and the selection in them."""
        self.session = session
        self.tick(standby, now)
        self._verdict.update(verdict_line(session))
        self._history.update(history_line(session))
        self.board.follow(session)
        if self.selection.follow(session):
            self._light(everywhere=False)
        if self.selection.ready(session):
            self.call_after_refresh(self.selection.prepare, session)

    def tick(self, standby: Standby | None, now: float) -> None:
        """Show how long the run has been going on."""
        self._title.update(title_line(self.session, standby, now))

    # ---- panes

    def on_resize(self, _: events.Resize) -> None:
        self.board.lay_out()

    def on_board_arranged(self, message: Board.Arranged) -> None:
        self._tabs.display = message.single
        self._tabs.update(layout.tabs(message.current))

    def on_row_line_clicked(self, event: RowLine.Clicked) -> None:
        if event.id == "tabs":
            self.board.current = PANES[int(event.text.strip(" []")[0]) - 1].id

    def action_show_pane(self, name: str) -> None:
        self.board.current = name

    def action_next_pane(self, by: int) -> None:
        self.board.next_pane(by)

    def action_zoom(self) -> None:
        self.board.zoomed = not self.board.zoomed

    def action_change_form(self) -> None:
        if not self.board.pane.change_form():
            self.say("This pane has one form only; the graph pane has two.")

    # ---- selection

    def on_cursor_moved(self, message: CursorMoved) -> None:
        self.selection.select(message.row.links, self.session)
        self._light(everywhere=False)

    def on_row_entered(self, message: RowEntered) -> None:
        row, pane = message.row, self.board.pane
        if row.fold is not None:
            pane.toggle(row.fold)
        elif row.links:
            self.selection.select(row.links, self.session)
            self._light(everywhere=False)
            self.board.current = pane.spec.leads_to

    def action_next_break(self, by: int) -> None:
        if self.selection.next_break(by, self.session):
            self._light(everywhere=True)
        else:
            self.say("There is no graph break to go to.")

    def _light(self, *, everywhere: bool) -> None:
        """Light the chain in all panes, and scroll to it except where the person is."""
        self.selection.light(self.board.panes.values())
        for pane in self.board.shown:
            if everywhere or pane is not self.board.pane:
                pane.view.reveal()

    # ---- search

    async def action_search(self) -> None:
        self._search_from = self.board.pane.view.cursor
        if self.search_bar is None:
            # Textual's input takes 20 ms that the first frame does not have.
            from tcexplore.ui.search_bar import SearchBar

            self.search_bar = SearchBar()
            await self.mount(self.search_bar, before=self._history)
        self.search_bar.open()

    def on_search_bar_changed(self, message: SearchBar.Changed) -> None:
        self.board.pane.view.search(message.text, self._search_from)

    def on_search_bar_closed(self, message: SearchBar.Closed) -> None:
        view = self.board.pane.view
        if self.search_bar is not None:
            self.search_bar.close()
        if not message.keep:
            view.search("", 0)
            view.move_to(self._search_from)
        view.focus()

    def on_search_counted(self, message: SearchCounted) -> None:
        if self.search_bar is not None:
            self.search_bar.count(f"{message.at} of {message.count}{'' if message.done else '…'}")

    def action_next_match(self, by: int) -> None:
        self.board.pane.view.next_match(by)

    def action_back(self) -> None:
        if self.board.pane.view.sought is not None:
            self.board.pane.view.search("", 0)
        else:
            self.board.zoomed = False

    # ---- the row under the cursor, outside the screen

    def action_edit(self) -> None:
        row = self.board.pane.view.cursor_row
        place = place_of(row) if row else None
        if place is None:
            self.say("This row stands for no line of a file.")
        elif trouble := editor.edit(self.app, place):
            self.say(trouble, "warning")

    def action_copy(self) -> None:
        row = self.board.pane.view.cursor_row
        if row is not None:
            self.say(clipboard.copy(self.app, text_of(row)))

    def action_copy_all(self) -> None:
        self._copy_all(self.board.pane)

    @work(group="copy", exclusive=True, exit_on_error=False)
    async def _copy_all(self, pane: Pane) -> None:
        self.say(clipboard.copy(self.app, await whole_text(pane.view.document)))

    def say(self, text: str, severity: Literal["information", "warning"] = "information") -> None:
        """A word at the edge of the screen; never read as markup."""
        self.notify(text, severity=severity, markup=False)
