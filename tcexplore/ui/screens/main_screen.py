"""The main screen: the lines around the panes, and the selection that all panes share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import events, work
from textual.app import ComposeResult

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.prose import fitted, piece
from tcexplore.documents.strip import Elapsed, history_row, run_of, title_row, verdict_row
from tcexplore.keymap import hint
from tcexplore.session import Session
from tcexplore.session.links import Link, closure, step_of
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.background_task import BackgroundTask, gc_paused, is_large
from tcexplore.ui.messages import (
    CursorMoved,
    FixRequested,
    MachineCodeRequested,
    NewestRequested,
    RecompileCheckRequested,
    RowEntered,
    RunChosen,
    StepRequested,
)
from tcexplore.ui.navigation import (
    Navigation,
    Selection,
    compare_entries,
    compare_kernels,
    index_links,
    kernel_at_cursor,
    no_kernel,
    prefetch,
)
from tcexplore.ui.pane import Pane
from tcexplore.ui.pane_grid import PaneGrid, tabs
from tcexplore.ui.pane_layout import PaneSizes
from tcexplore.ui.pane_table import PANES
from tcexplore.ui.row_line import Line, RowLine
from tcexplore.ui.row_search import own_links
from tcexplore.ui.row_view import RowView
from tcexplore.ui.screens.reading_screen import ReadingScreen

if TYPE_CHECKING:
    from tcexplore.session import Snapshot


_NOTHING_SELECTED = " Put the cursor on a row: what it is linked to appears here."


class MainScreen(ReadingScreen):
    """Follows the app's session, as its panes do."""

    BLANK = True  # its widgets cover it; Textual would render each of its lines
    BINDINGS = bindings("main")
    SCOPES = (*ReadingScreen.SCOPES, "main")

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.selection = Selection()
        self.grid = PaneGrid()
        self.navigation = Navigation(self.grid, self.selection)
        self._index: BackgroundTask[None] = BackgroundTask(self._on_indexed)
        self._prefetched_run = 0
        self._fitted = (0, False)
        """The run whose rows the panes have room for, and whether its last facts were there."""
        self._assembly_awaited = False
        """Whether the assembly of the selection opens once it is known."""
        self._next_form = 0
        """Places from the form of the assembly that is open to the one to show."""
        self._alerted: tuple[Link, ...] = ()
        """The links of the last headline of a job."""
        self._title = RowLine(partial(title_row, self.session, None, Elapsed(0.0, 0.0)), id="title")
        self._verdict = RowLine(partial(verdict_row, self.session), id="verdict")
        self._alert = RowLine(lambda _: Row(()), id="alert")
        self._alert.display = False
        self._tabs = RowLine(tabs(self.grid.current), id="tabs")
        self._peek = RowLine(_peek_line(None, (), frozenset()), id="peek")
        self._footer = RowLine(footer(self.SCOPES, self.grid.current), id="footer")
        self._history = RowLine(partial(history_row, self.session), id="history")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._verdict
        yield self._alert
        yield self._tabs
        yield self.grid
        yield self._peek
        yield self._history
        yield self._footer

    @property
    def reader(self) -> RowView:
        return self.grid.pane.rows

    @property
    def page(self) -> tuple[str, str]:
        spec = self.grid.pane.spec
        return spec.id, f"{spec.number} {spec.title}"

    def leave(self) -> None:
        if not self.grid.zoomed:
            self.post_message(NewestRequested())
        self.grid.zoomed = False

    # ---- session

    def on_mount(self) -> None:
        # The panes come first: highlights are looked up in the documents that they show.
        for pane in self.grid.panes.values():
            pane.watch(self.app, "session", pane.show_session, init=False)
        self.watch(self.app, "session", self.show_session, init=False)
        self.set_interval(1.0, self._show_alert)

    def _show_alert(self) -> None:
        """Show the headline of a job whose ranks differ or hang, and how long they have hung."""
        session = self.session
        if session.shown is None or not session.shown.trace:
            return
        from tcexplore.documents.rank_alert import alert_links, alert_row, newest_comparison

        row = alert_row(session)
        self._verdict.update(partial(verdict_row, session))
        self._alert.update(lambda _: row)
        self._alert.display = bool(row.spans)
        comparison = newest_comparison(session, session.shown)
        if comparison is not None:
            self._show_place(alert_links(comparison, session.shown))

    def _show_place(self, links: tuple[Link, ...]) -> None:
        """Go to the user's line of a headline once, unless the user has selected something else."""
        if links and links != self._alerted and self.selection.links in ((), self._alerted):
            self._alerted = links
            self.selection.select(links, self.session)
            self.call_after_refresh(self._highlight, everywhere=True)

    def show_session(self, session: Session) -> None:
        """Update the lines, and the selection in the panes."""
        first, before = self.session.newest is None, self.session.shown
        self.session = session
        shown = session.shown
        if before is not None and shown is not None and (before.run, before.target) != (shown.run, shown.target):
            self.grid.remove_marks()
        if first:
            self._show_footer(self.grid.current)
        self._verdict.update(partial(verdict_row, session))
        self._history.update(partial(history_row, session))
        self._show_alert()
        if self.selection.update(session):
            self._highlight(everywhere=False)
        elif self._assembly_awaited:
            self._open_assembly()
        shown = session.shown
        if shown is not None:
            self.grid.suggested = "output" if shown.failure else "breaks" if shown.breaks else "graph"
        self._show_peek()
        self._fit_panes()
        if shown is not None and shown.complete and shown.run != self._prefetched_run:
            self._prefetched_run = shown.run
            self.call_after_refresh(self._prefetch)

    def _fit_panes(self) -> None:
        """Fit the room of the panes once a run is over, and again with its timing, whose rows come later.

        Nothing moves while rows arrive, or while the user goes through the history.
        """
        shown = self.session.shown
        if shown is None or self.session.pinned is not None or not (shown.complete or shown.failure):
            return
        timed = shown.status != "running" or shown.call_account is not None
        if (shown.run, timed) not in (self._fitted, (self._fitted[0], False)):
            self._fitted = (shown.run, timed)
            self.grid.fit([name for name in self.grid.panes if timed or name != "timing"])

    @work(thread=True, group="prefetch", exit_on_error=False)
    def _prefetch(self) -> None:
        # Takes no session: Textual formats the arguments of a worker, which takes a second for a large run.
        with gc_paused(large=is_large(self.session.shown)):
            prefetch(self.session)

    def show_title(self, session: Session, standby: ev.Standby | None, elapsed: Elapsed, study: str) -> None:
        """Update the title, which shows how long the run and its phase have taken so far, and how far a study is."""
        self._title.update(partial(title_row, session, standby, elapsed, study=study))

    # ---- panes

    def on_resize(self, _: events.Resize) -> None:
        self.grid.lay_out()

    def on_pane_grid_arranged(self, message: PaneGrid.Arranged) -> None:
        self._tabs.display = message.arrangement != "all"
        self._tabs.update(tabs(message.current))
        self._show_footer(message.current)
        self._show_peek()

    def on_pane_shown(self, message: Pane.Shown) -> None:
        if message.pane == self.grid.current:
            self._show_peek()  # what of the row is cut depends on the pane's size

    def _show_footer(self, pane: str) -> None:
        newest = self.session.newest
        self._footer.update(footer(self.SCOPES, pane, trace=newest is not None and bool(newest.trace)))

    def on_row_line_clicked(self, event: RowLine.Clicked) -> None:
        if event.id == "tabs":
            self.grid.current = PANES[int(event.text.strip(" []")[0]) - 1].id
        elif event.id == "history":
            runs = (run_of(self.session, text) for text in reversed(event.texts))  # the click may be behind its number
            if (run := next((run for run in runs if run is not None), None)) is not None:
                self.post_message(RunChosen(run))

    def action_show_pane(self, name: str) -> None:
        self.grid.current = name
        self._select_cursor_row()

    def action_next_pane(self, by: int) -> None:
        self.grid.next_pane(by)
        self._select_cursor_row()

    def _select_cursor_row(self) -> None:
        """Select the row under the cursor of the pane that the user has gone to, unless it belongs to the selection."""
        row = self.reader.cursor_row
        if row is not None and row.links and self.selection.unindexed is None and self.reader.is_apart:
            self.selection.select(row.links, self.session)
            self._highlight(everywhere=False)

    def action_zoom(self) -> None:
        self.grid.zoomed = not self.grid.zoomed

    def action_resize(self, wider: int, taller: int) -> None:
        if self.grid.arrangement == "one":
            self.say(f"One pane is in view: {hint('zoom')} leaves the zoom, and two panes need 100 columns.")
        self.grid.resize(wider, taller)

    def action_default_sizes(self) -> None:
        self.grid.sizes = PaneSizes()

    def show_view(self, pane_name: str, view_name: str) -> None:
        """Make a pane the current one, in this view."""
        self.grid.current = pane_name
        if (view := self.grid.pane.spec.view(view_name)) is not None:
            self.grid.pane.show_view(view)

    def action_machine_code(self) -> None:
        self.post_message(MachineCodeRequested())

    def show_assembly(self) -> None:
        """Show the instructions of the selected row, now or once they are known; those of the next form if they are
        in view: PTX, then SASS."""
        if not self.selection.links:
            self.selection.select(self._links_at_cursor, self.session)
        self._next_form = int(self.grid.current == "code" and self.grid.pane.view.name == "device")
        self.navigation.leave()
        self.show_view("code", "device")
        self._assembly_awaited = True
        self._highlight(everywhere=False)

    def _open_assembly(self) -> None:
        from tcexplore.documents.code.stages_view import instruction_folds, list_statements
        from tcexplore.documents.code.target_notes import describe_not_lowered, is_assembled

        pane, snapshot = self.grid.panes["code"], self._code_snapshot
        if snapshot is None or pane.view.name != "device":
            return
        statements = [link for link in self.selection.chain if link.kind == "statement"]
        folds = instruction_folds(snapshot, statements, pane.toggled, self._next_form)
        if folds.opened:
            self._assembly_awaited = False
            pane.open_folds(folds.opened, statements, folds.closed)
            if len(folds.forms) > 1:
                self.say(f"{folds.forms[0]} is shown: {hint('machine-code')} shows {folds.forms[1]}.")
        elif not statements and (whole := list_statements(snapshot, self.selection.links)):
            self.selection.select((*whole, *self.selection.links), self.session)
            self._highlight(everywhere=False)
        elif is_assembled(snapshot):
            self._assembly_awaited = False
            why = "library calls and lines outside the graphs have none."
            if snapshot.code.not_lowered and not snapshot.code.lowered:
                why = describe_not_lowered(snapshot.code.not_lowered[0])
            self.say(f"No generated kernel comes from this row: {why}")

    def action_next_view(self, by: int) -> None:
        pane = self.grid.pane
        view = pane.next_view(by)
        if view is pane.view:
            self.say(
                f"No other view of this pane has anything to show for this run; {hint('commands')} lists all views."
            )
            return
        # Links that the view has rows for come first. Whole kernels come last, or all their lines would be selected.
        exact = view.kinds - {"kernel"}
        links = sorted(self.selection.links, key=lambda link: link.kind not in exact)
        self.selection.select(links, self.session)
        self._highlight(everywhere=False)
        pane.show_view(view, links)

    def go_to(self, link: Link) -> None:
        """Select a link, and go to its row in the pane of its kind."""
        pane = {"kernel": "code", "node": "graph", "guard": "guards", "break": "breaks"}.get(link.kind, "source")
        self.selection.select((link,), self.session)
        spec = self.grid.panes[pane].spec
        view = next((view for view in spec.views if link.kind in view.kinds), spec.views[0])
        self.show_view(pane, view.name)
        self.call_after_refresh(self._highlight, everywhere=True)

    def action_show_next(self) -> None:
        self.navigation.leave()
        self.show_view("timing", "next")
        rows = self.grid.pane.rows
        if rows.cursor == 0:  # the first rows say whether to compile at all; the steps follow
            first = (i for i in range(len(rows.document)) if step_of(rows.document.row(i).links) is not None)
            rows.center_on(next(first, 0))

    def action_show_compile_time(self) -> None:
        from tcexplore.session.next_steps import COMPILE_FOLD

        self.navigation.leave()
        self.show_view("timing", "timing")
        pane = self.grid.pane
        pane.open_folds(frozenset({COMPILE_FOLD}), ())
        rows = pane.rows
        folds = (i for i in range(len(rows.document)) if rows.document.row(i).fold == COMPILE_FOLD)
        if (row := next(folds, None)) is None:
            self.say("The compile time is not known.")
        else:
            rows.move_to(len(rows.document) - 1, notify=False)  # so that what the fold holds is in view
            rows.move_to(row)

    def action_code(self) -> None:
        pane = self.grid.panes["graph"]
        code_shown = self.grid.pane is pane and pane.view is pane.spec.view("code")
        self.show_view("graph", "nodes" if code_shown else "code")

    # ---- selection

    def on_cursor_moved(self, message: CursorMoved) -> None:
        if message.row.fold is not None and not message.row.links:
            self._show_peek()
            return  # a fold's heading has nothing to select
        self._assembly_awaited = False
        if self.grid.current != "guards":
            self._show_guards_of(None)
        self.selection.select(message.row.links, self.session)
        self._highlight(everywhere=False)

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self.grid.pane.toggle(message.row.fold)
        elif message.row.target is not None:
            self.navigation.open_chapter(message.row.target)
            self._select_row(alone=True)
        elif (step := step_of(message.row.links)) is not None:
            self.post_message(StepRequested(step))
        else:
            self.action_follow()

    def action_follow(self) -> None:
        step = step_of(self._links_at_cursor)
        if step is not None:
            self._show_evidence(step)
        elif self._select_row():
            self._follow()
        else:
            self.say("Nothing to follow.")

    def _show_evidence(self, key: str) -> None:
        """Go to the rows that a next step rests on."""
        from tcexplore.session.next_steps import next_steps

        shown = self.session.view(lambda snapshot: snapshot.compiled)
        step = next((step for step in next_steps(shown) if step.key == key), None) if shown is not None else None
        if step is None:
            self.say("The run in view gives no reason for this step.")
            return
        self.navigation.leave()
        self.show_view(*step.view)
        if step.fold:
            self.grid.pane.open_folds(frozenset({step.fold}), ())
        if step.links:
            self.selection.select(step.links, self.session)
            self.call_after_refresh(self._highlight, everywhere=True)

    def _select_row(self, *, alone: bool = False) -> bool:
        """Select the row under the cursor, unless it belongs to the selection; return whether it has links.

        If `alone`, only what the row itself is about is selected: a line of a selected kernel may have guards.
        """
        row = self.reader.cursor_row
        if row is None or not row.links:
            return False
        if self.selection.chain.isdisjoint(own_links(row)) or (alone and self.selection.links != row.links):
            self.selection.select(row.links, self.session)
            self._highlight(everywhere=False)
        return True

    @work(group="follow", exclusive=True, exit_on_error=False)
    async def _follow(self, pane: str = "") -> None:
        await self._index.wait()
        if pane == "guards" and self.session.shown is not None:
            from tcexplore.documents.guards.guards_view import folds_of

            folds = folds_of(self.session.shown, self.selection.chain)
            if not folds <= self.grid.panes[pane].toggled:
                self.grid.panes[pane].open_folds(folds, ())
        if not await self.navigation.follow(pane):
            self.say("No guard comes from this row." if pane else "No other pane has a row for this one.")

    def action_row_guards(self) -> None:
        guards, row = self.grid.panes["guards"], self.reader.cursor_row
        if self._select_row(alone=True):
            guards.show_view(guards.spec.views[0])
            self._show_guards_of(row.location if row is not None else None)
        self._follow("guards")

    def _show_guards_of(self, at: ev.Location | None) -> None:
        """Leave only the guards of a line in their pane; all if it is None."""
        pane = self.grid.panes["guards"]
        if at is None and not pane.toggled:
            return
        from tcexplore.documents.guards.guards_view import OF_LINE, fold_of_line

        before = frozenset(name for name in pane.toggled if name.startswith(OF_LINE))
        chosen = frozenset() if at is None else frozenset({fold_of_line(at)})
        if chosen != before:
            pane.open_folds(chosen, (), before - chosen)

    def action_next_chapter(self, by: int) -> None:
        self.reader.next_hit(by, chapter=True)

    def action_jump(self, by: int) -> None:
        position = self.navigation.back() if by < 0 else self.navigation.forward()
        if position is None:
            self.say("No earlier jump to go back to." if by < 0 else "No later jump to go forward to.")
        elif position.links != self.selection.links:
            self.selection.select(position.links, self.session)
            self._highlight(everywhere=False)

    def action_next_break(self, by: int) -> None:
        if self.selection.next_break(by, self.session):
            self._highlight(everywhere=True)
        else:
            self.say("No graph break.")

    def _highlight(self, *, everywhere: bool) -> None:
        """Highlight the selection in all panes, and scroll to it, also in the current pane if `everywhere`."""
        run = self.selection.unindexed
        if run is not None and self._index.request(partial(index_links, run)):
            self.run_worker(self._index.run(), group="index", exit_on_error=False)
        for pane in self.grid.panes.values():
            pane.highlight(self.selection.chain)
        self._show_peek()
        for pane in self.grid.visible_panes:
            if everywhere or pane is not self.grid.pane:
                pane.rows.reveal()
        if self._assembly_awaited:
            self._open_assembly()

    def _show_peek(self) -> None:
        """Show what the selection is linked to, or the row under the cursor while nothing is selected."""
        run, shown = self.session.view(lambda snapshot: snapshot.compiled), self.session.shown
        row = self.reader.cursor_row
        of_row = (row.meaning if row else "", self.reader.hidden_text)
        if self.selection.links or run is None or is_large(run):
            known = None if self.selection.unindexed is not None else run
            self._peek.update(_peek_line(known, self.selection.links, self.selection.chain, shown, of_row))
        else:
            links = self._links_at_cursor
            self._peek.update(_peek_line(run, links, closure(run, links), shown, of_row))

    def _on_indexed(self, _: None) -> None:
        self.selection.select(self.selection.links, self.session)
        self._highlight(everywhere=False)

    # ---- kernels, cache entries, breaks

    @property
    def _links_at_cursor(self) -> tuple[Link, ...]:
        row = self.reader.cursor_row
        return row.links if row else ()

    @property
    def _code_snapshot(self) -> Snapshot | None:
        """The run that the code pane shows."""
        return self.session.view(self.grid.panes["code"].view.has)

    def action_fix(self) -> None:
        self.post_message(FixRequested(self._links_at_cursor))

    def action_recompile_check(self) -> None:
        self.post_message(RecompileCheckRequested(self._links_at_cursor))

    def action_compare(self) -> None:
        """Mark a kernel or a cache entry, or compare it with the marked one; on the marked one, remove the mark."""
        pane, snapshot = self.grid.pane, self._code_snapshot
        if pane.spec.id == "guards":
            answer = compare_entries(pane, self.session)
        elif pane.spec.id != "code" or snapshot is None:
            answer = no_kernel()
        else:
            answer = compare_kernels(pane, snapshot)
        if isinstance(answer, str):
            self.say(answer)
        else:
            self.app.push_screen(answer)

    def action_target_diff(self) -> None:
        snapshot = self._code_snapshot
        if snapshot is None or not any(code.kernels for code in snapshot.other_codes):
            self.say(f"The run has code for one target only: choose another with {hint('target')}, then compare.")
            return
        from tcexplore.ui.screens.target_screens import TargetDiffScreen

        kernel = kernel_at_cursor(self.grid.panes["code"].rows, snapshot)
        self.app.push_screen(TargetDiffScreen(snapshot, kernel))


def _peek_line(
    run: Snapshot | None,
    links: Sequence[Link],
    chain: frozenset[Link],
    shown: Snapshot | None = None,
    of_row: tuple[str, str] = ("", ""),
) -> Line:
    """Return what is linked to the selected row in a run, marked as old unless it is the one that is `shown`.

    `of_row` is the meaning of the marks of the row under the cursor, and its end that the pane cuts.
    """
    if not any(of_row) and (run is None or not links):
        return lambda width: fitted([piece(_NOTHING_SELECTED, "dim")], width)
    from tcexplore.documents.peek_line import peek_row, with_row

    def line(width: int) -> Row:
        linked = Row(()) if run is None or not links else peek_row(run, links, chain, width, old=run is not shown)
        return with_row(linked, *of_row, width)

    return line
