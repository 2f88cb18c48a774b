"""Which device to show the code for: a small list over the panes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tcexplore.documents.code.target_choices import FIRST, TargetChoice, choice_rows, choices
from tcexplore.session import Snapshot
from tcexplore.ui.actions import bindings
from tcexplore.ui.footer import footer
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.overlay_screen import OverScreen

_FRAME = 3
"""Lines of the frame and the footer."""


class TargetScreen(OverScreen, ModalScreen[None]):
    """Tells `chosen` of the choice; `own` are the files of the command line."""

    CSS_PATH = "target.tcss"
    BINDINGS = bindings("target")
    SCOPES = ("view", "reading", "target")  # the app's keys end at a modal screen

    def __init__(
        self, snapshot: Snapshot | None, own: Sequence[str], device: str, chosen: Callable[[TargetChoice], None]
    ) -> None:
        super().__init__()
        self._chosen = chosen
        self._snapshot = snapshot
        self._device = device
        self._choices = choices(own)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content("Code for which device?")
            yield self._view
            yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "code", "5 Code"

    def _show(self) -> None:
        document = choice_rows(self._choices, self._snapshot, self._device, self._view.text_width)
        first = not len(self._view.document)
        self._view.show(document)
        self.query_one(Vertical).styles.height = len(document) + _FRAME
        if first:
            key = self._snapshot.target if self._snapshot else ""
            self._view.move_to(FIRST + next((i for i, choice in enumerate(self._choices) if choice.key == key), 0))

    def on_row_entered(self, _: RowEntered) -> None:
        index = self._view.cursor - FIRST
        if not 0 <= index < len(self._choices):
            return
        choice = self._choices[index]
        if choice.trouble:
            self.say(choice.trouble, "warning")
        else:
            self.leave()
            self._chosen(choice)
