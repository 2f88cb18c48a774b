"""Why two kernels were not fused: torch's reasons, over the panes."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tcexplore.documents.document import Document
from tcexplore.events import Kernel
from tcexplore.session import Snapshot
from tcexplore.ui.actions import bindings
from tcexplore.ui.footer import footer
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.screens.overlay_screen import OverScreen

_FRAME = 3
"""Lines of the frame and the footer."""


class WhyScreen(OverScreen, ModalScreen[None]):
    """The answer for two kernels of a run."""

    CSS_PATH = "why.tcss"
    BINDINGS = bindings("why")
    SCOPES = ("view", "reading", "why")  # the app's keys end at a modal screen

    def __init__(self, snapshot: Snapshot, a: Kernel, b: Kernel) -> None:
        super().__init__()
        self._asked = snapshot, a, b

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content("Why two kernels?")
            yield self._view
            yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "code", "5 Code"

    def _show(self) -> None:
        document = guarded(self._build)
        self._view.show(document)
        self.query_one(Vertical).styles.height = len(document) + _FRAME

    def _build(self) -> Document:
        from tcexplore.documents.code.fusion_reasons_view import fusion_reasons_document

        return fusion_reasons_document(*self._asked, self._view.text_width)
