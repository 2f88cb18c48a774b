"""The ranks of a traced job: the verdict, and one row per rank; enter shows a rank in the panes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from textual.app import ComposeResult

from tcexplore.documents.document import message
from tcexplore.session import Session
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.row_line import RowLine
from tcexplore.ui.row_view import guarded
from tcexplore.ui.screens.reading_screen import OverlayScreen

CLOCK_S = 0.5
"""Seconds between two updates of the times in a job that is followed."""

_RANK_FOLD = re.compile(r"^rank (\d+)$")


class RanksScreen(OverlayScreen):
    """Follows the app's session, as the panes do."""

    BINDINGS = bindings("ranks")
    SCOPES = (*OverlayScreen.SCOPES, "ranks")

    def __init__(
        self, session: Session, runs: Callable[[], Mapping[int, int]], show_rank: Callable[[int], str]
    ) -> None:
        """`runs` returns the run of each rank that was read; `show_rank` shows one, and returns why it can't."""
        super().__init__()
        self._session = session
        self._runs = runs
        self._show_rank = show_rank
        self._toggled: frozenset[str] = frozenset()

    def compose(self) -> ComposeResult:
        yield self._view
        yield RowLine(footer(self.SCOPES, trace=True), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "ranks", "Ranks"

    def on_mount(self) -> None:
        self.watch(self.app, "session", self._show_session, init=False)
        self.set_interval(CLOCK_S, self._show_times)

    def _show_session(self, session: Session) -> None:
        self._session = session
        self._show()

    def _show_times(self) -> None:
        """Update the times of what the ranks do, if something is under way."""
        if any(row.last_record is not None for run in self._session.runs if run.rank_comparison is not None
               for row in run.rank_comparison.rows):  # fmt: skip
            self._show()

    def _show(self) -> None:
        from tcexplore.documents.ranks_view import ranks_screen_document

        shown = self._session.shown
        if shown is None or not shown.trace:
            self._view.show(message("A live run has one process. `tcexplore open DIR` compares the ranks of a trace."))
            return
        comparisons = (run.rank_comparison for run in reversed(self._session.runs))
        comparison = next((known for known in comparisons if known is not None), None)
        runs, width = self._runs(), self._view.text_width
        self._view.show(guarded(lambda: ranks_screen_document(shown, comparison, tuple(runs), self._toggled, width)))

    def on_row_entered(self, entered: RowEntered) -> None:
        match = _RANK_FOLD.match(entered.row.fold or "")
        if match is not None:
            if problem := self._show_rank(int(match[1])):
                self.say(problem)
            else:
                self.leave()
        elif entered.row.fold is not None:
            self._toggled ^= {entered.row.fold}
            self._show()
