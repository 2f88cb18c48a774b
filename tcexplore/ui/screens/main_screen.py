"""The main screen: the lines around the panes, and the selection that all panes share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual import events, work
from textual.app import ComposeResult

from tcexplore.events import Standby
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import kernel_link
from tcexplore.ui import pane_layout as layout
from tcexplore.ui.actions import bindings
from tcexplore.ui.background_task import Later
from tcexplore.ui.entry_selection import compare_entries, mark_entry
from tcexplore.ui.footer import footer
from tcexplore.ui.gc_pause import uncollected
from tcexplore.ui.header import history_line, title_line, verdict_line
from tcexplore.ui.kernel_selection import kernel_name, kernel_of, kernel_under
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.lines.row_painter import MARKED
from tcexplore.ui.lines.row_scan import own_links
from tcexplore.ui.lines.search_view import SearchView
from tcexplore.ui.messages import CursorMoved, RowEntered
from tcexplore.ui.navigation import Walk
from tcexplore.ui.panes import PANES
from tcexplore.ui.panes.pane_grid import Board
from tcexplore.ui.prefetch import prepare
from tcexplore.ui.screens.reading_screen import ReadingScreen
from tcexplore.ui.selection import Selection, index

if TYPE_CHECKING:
    from tcexplore.ui.app import ExplorerApp


class MainScreen(ReadingScreen):
    """Follows the app's session; the panes do the showing."""

    BINDINGS = bindings("screen")
    SCOPES = (*ReadingScreen.SCOPES, "screen")

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.selection = Selection()
        self.board = Board()
        self.walk = Walk(self.board, self.selection)
        self._index: Later[None] = Later(self._indexed)
        self._looked_ahead = 0
        """The run that what the next keys may ask for was made of."""
        self._title = RowLine(title_line(self.session, None, 0.0), id="title")
        self._verdict = RowLine(verdict_line(self.session), id="verdict")
        self._tabs = RowLine(layout.tabs(self.board.current), id="tabs")
        self._history = RowLine(history_line(self.session), id="history")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._verdict
        yield self._tabs
        yield self.board
        yield self._history
        yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def reader(self) -> SearchView:
        return self.board.pane.view

    @property
    def page(self) -> tuple[str, str]:
        spec = self.board.pane.spec
        return spec.id, f"{spec.number} {spec.title}"

    def leave(self) -> None:
        self.board.zoomed = False

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
        shown = session.shown
        if shown is not None and shown.complete and shown.run != self._looked_ahead:
            self._looked_ahead = shown.run
            self.call_after_refresh(self._look_ahead)

    @work(thread=True, group="ahead", exit_on_error=False)
    def _look_ahead(self) -> None:
        # Not given the session: textual writes the arguments of such a function out, a second's work for a large run.
        with uncollected():
            prepare(self.session)

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

    def action_next_view(self, by: int) -> None:
        pane = self.board.pane
        if len(pane.spec.views) == 1:
            self.say("This pane has one view only; the graph and the code pane have several.")
        view = pane.spec.beside(pane.form, by)
        # What the view has rows for comes first: a statement there, its ATen node elsewhere. The whole kernel stays
        # behind them, or all its lines would be selected.
        exact = view.kinds - {"kernel"}
        links = sorted(self.selection.links, key=lambda link: link.kind not in exact)
        self.selection.select(links, self.session)
        self._light(everywhere=False)
        pane.show_view(view, links)

    def action_code(self) -> None:
        pane = self.board.panes["graph"]
        nodes, code = pane.spec.views[0], pane.spec.view("code")
        there = pane.form is code and self.board.pane is pane
        self.board.current = pane.spec.id
        pane.show_view(nodes if there or code is None else code)

    # ---- selection

    def on_cursor_moved(self, message: CursorMoved) -> None:
        if message.row.fold is not None and not message.row.links:
            return  # the head of a fold stands for nothing of its own
        self.selection.select(message.row.links, self.session)
        self._light(everywhere=False)

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self.board.pane.toggle(message.row.fold)
        elif message.row.target is not None:
            self.walk.into(message.row.target)
        else:
            self.action_follow()

    def action_follow(self) -> None:
        row = self.reader.cursor_row
        if row is None or not row.links:
            self.say("This row leads nowhere.")
            return
        if self.selection.chain.isdisjoint(own_links(row)):
            self.selection.select(row.links, self.session)
            self._light(everywhere=False)
        self._follow()

    @work(group="follow", exclusive=True, exit_on_error=False)
    async def _follow(self) -> None:
        await self._index.idle()
        if not await self.walk.on():
            self.say("No other pane has anything of this row.")

    def action_next_chapter(self, by: int) -> None:
        self.reader.next_hit(by, chapter=True)

    def action_trail(self, by: int) -> None:
        found = self.walk.back() if by < 0 else self.walk.forward()
        if found is None:
            self.say("Nothing was followed from here." if by < 0 else "There is nothing further on.")
        elif found.links != self.selection.links:
            self.selection.select(found.links, self.session)
            self._light(everywhere=False)

    def action_next_break(self, by: int) -> None:
        if self.selection.next_break(by, self.session):
            self._light(everywhere=True)
        else:
            self.say("There is no graph break to go to.")

    def _light(self, *, everywhere: bool) -> None:
        """Light the chain in all panes, and scroll to it except where the user is."""
        if self.selection.waiting is not None and self._index.want(partial(index, self.selection.waiting)):
            self.run_worker(self._index.work(), group="index", exit_on_error=False)
        self.selection.light(self.board.panes.values())
        for pane in self.board.shown:
            if everywhere or pane is not self.board.pane:
                pane.view.reveal()

    def _indexed(self, _: None) -> None:
        self.selection.select(self.selection.links, self.session)
        self._light(everywhere=False)

    def action_heal(self) -> None:
        from tcexplore.ui.break_selection import heal

        row = self.reader.cursor_row
        if trouble := heal(cast("ExplorerApp", self.app), row.links if row else ()):
            self.say(trouble)

    # ---- why two kernels are two

    def action_mark(self) -> None:
        if self.board.current == "guards":
            self.say(mark_entry(self.board.pane))
            return
        pane, snapshot = self.board.panes["code"], self._with_kernels
        found = kernel_of(snapshot, kernel_under(pane.view)) if snapshot and self.board.pane is pane else None
        if snapshot is None or found is None:
            self.say("Put the cursor on a kernel in the code pane (5) to mark it.")
            return
        link = kernel_link(found)
        again = link == pane.view.marked
        pane.view.marked = None if again else link
        pane.note = "" if again else f"{MARKED} {kernel_name(snapshot, link)}"

    def action_why(self) -> None:
        if self.board.current == "guards":
            if trouble := compare_entries(self.app, self.board.pane, self.session):
                self.say(trouble)
            return
        pane, snapshot = self.board.panes["code"], self._with_kernels
        marked = kernel_of(snapshot, pane.view.marked) if snapshot else None
        other = kernel_of(snapshot, kernel_under(pane.view)) if snapshot else None
        if snapshot is None or marked is None or other is None or self.board.pane is not pane:
            self.say("Why are two kernels not one? Mark one in the code pane (5) with m, go to another, press w.")
        elif marked is other:
            self.say("This is the marked kernel: go to another one and press w.")
        else:
            from tcexplore.ui.screens.fusion_reasons_screen import WhyScreen

            self.app.push_screen(WhyScreen(snapshot, marked, other))

    def action_would(self) -> None:
        from tcexplore.ui.recompile_query import ask

        row = self.reader.cursor_row
        if trouble := ask(cast("ExplorerApp", self.app), row.links if row else ()):
            self.say(trouble)

    def action_twice(self) -> None:
        pane, snapshot = self.board.panes["code"], self._with_kernels
        if snapshot is None or not any(code.kernels for code in snapshot.other_codes):
            self.say("The run has code for one device only: choose another with T, then compare.")
            return
        from tcexplore.ui.screens.target_diff_screen import TwiceScreen

        self.app.push_screen(TwiceScreen(snapshot, kernel_of(snapshot, kernel_under(pane.view))))

    @property
    def _with_kernels(self) -> Snapshot | None:
        """The run that the code pane shows."""
        return self.session.view(self.board.panes["code"].form.has)
