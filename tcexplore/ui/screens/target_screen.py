"""The list of targets to generate code for, in a box over the panes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcexplore.documents.code.target_choices import FIRST, TargetChoice, choice_rows, list_choices
from tcexplore.session import Snapshot
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.overlay_screen import BoxScreen


class TargetScreen(BoxScreen):
    """Calls `choose` with the user's choice; `target_files` are those of the command line.

    The cursor begins on the target `at`, or on the one in view if that is empty.
    """

    BINDINGS = bindings("target")
    SCOPES = ("view", "reading", "target")

    def __init__(
        self,
        snapshot: Snapshot | None,
        target_files: Sequence[str],
        device: str,
        choose: Callable[[TargetChoice], None],
        title: str,
        at: str,
    ) -> None:
        super().__init__(title)
        self._at = at or (snapshot.target if snapshot else "")
        self._choose = choose
        self._snapshot = snapshot
        self._device = device
        self._choices = list_choices(target_files)

    @property
    def page(self) -> tuple[str, str]:
        return "code", "5 Code"

    def _show(self) -> None:
        first = not len(self._view.document)
        self._show_document(choice_rows(self._choices, self._snapshot, self._device, self._view.text_width))
        if first:
            self._view.move_to(FIRST + next((i for i, choice in enumerate(self._choices) if choice.key == self._at), 0))

    def on_row_entered(self, _: RowEntered) -> None:
        index = self._view.cursor - FIRST
        if not 0 <= index < len(self._choices):
            return
        choice = self._choices[index]
        if choice.trouble:
            self.say(choice.trouble, "warning")
        else:
            self.leave()
            self._choose(choice)
