"""Two cache entries of a frame: how their guards differ, over the panes."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.actions import bindings
from tcexplore.ui.footer import footer
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.screens.overlay_screen import OverScreen

_FRAME = 3
"""Lines of the frame and the footer."""


class EntriesScreen(OverScreen, ModalScreen[None]):
    """The guards that two entries of a run do not share."""

    CSS_PATH = Path(__file__).with_name("why.tcss")
    BINDINGS = bindings("why")
    SCOPES = ("view", "reading", "why")

    def __init__(self, snapshot: Snapshot, one: str, other: str) -> None:
        super().__init__()
        self._asked = snapshot, one, other

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(f"Guards of {self._asked[1]} and {self._asked[2]}")
            yield self._view
            yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "guards", "4 Guards"

    def _show(self) -> None:
        document = guarded(self._build)
        self._view.show(document)
        self.query_one(Vertical).styles.height = len(document) + _FRAME

    def _build(self) -> Document:
        from tcexplore.documents.guards.cache_entries_view import guard_diff_document

        return guard_diff_document(*self._asked, self._view.text_width)
