"""Targets over the panes: the list to choose from, and one kernel on two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from tcexplore.documents.code.target_choices import FIRST, TargetChoice, choice_rows, list_choices
from tcexplore.documents.code.target_diff_view import (
    FORMS,
    TargetPair,
    other_targets,
    target_diff,
    target_diff_document,
)
from tcexplore.documents.document import Document
from tcexplore.documents.prose import fitted, piece
from tcexplore.events import Kernel
from tcexplore.keymap import hint
from tcexplore.session import Snapshot
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.messages import CursorMoved, RowEntered
from tcexplore.ui.row_line import Line, RowLine
from tcexplore.ui.row_view import guarded
from tcexplore.ui.screens.reading_screen import BoxScreen, OverlayScreen


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
        self._name_choice()

    def on_cursor_moved(self, _: CursorMoved) -> None:
        """Keep the cursor below the head of the list: `home` and enter choose the first target."""
        if self._view.cursor < FIRST:
            self._view.move_to(FIRST)
        self._name_choice()

    @property
    def _choice(self) -> TargetChoice | None:
        """The choice under the cursor; None on a row below the list."""
        index = self._view.cursor - FIRST
        return self._choices[index] if 0 <= index < len(self._choices) else None

    def _name_choice(self) -> None:
        """Name the choice under the cursor in the frame: the dot in the list marks the target in view."""
        choice = self._choice
        self.query_one(Vertical).border_subtitle = Content(f"⏎ {choice.key}" if choice is not None else "")

    def on_row_entered(self, _: RowEntered) -> None:
        choice = self._choice
        if choice is None:
            self._view.move_to(FIRST + len(self._choices) - 1)
            return
        if choice.trouble:
            self.say(choice.trouble, "warning")
        else:
            self.leave()
            self._choose(choice)


class TargetDiffScreen(OverlayScreen):
    """Compares each kernel for the target in view with the kernel that computes the same on another one."""

    BINDINGS = bindings("target_diff")
    SCOPES = ("view", "reading", "target_diff")

    def __init__(self, snapshot: Snapshot, kernel: Kernel | None) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._others = other_targets(snapshot)
        self._other = self._others[0]
        self._pairs = self._match()
        self._at = self._index_of(kernel)
        self._stage = FORMS[0]
        self._title = RowLine(self._heading(), id="title")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._view
        yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "target_diff", "A kernel on two targets"

    def _match(self) -> list[TargetPair]:
        return target_diff(self._snapshot.code_for(self._snapshot.target), self._snapshot.code_for(self._other))

    def _index_of(self, kernel: Kernel | None) -> int:
        """Return the pair of this kernel; without a kernel, the first pair that was generated."""
        generated = (i for i, pair in enumerate(self._pairs) if pair.item.generated)
        return next(
            (i for i, p in enumerate(self._pairs) if kernel is not None and p.left is kernel), next(generated, 0)
        )

    def _heading(self) -> Line:
        targets = f"{self._snapshot.target} │ {self._other}"
        position = f"kernel {self._at + 1} of {len(self._pairs)}"
        unpaired = sum(pair.left is None or pair.right is None for pair in self._pairs)
        note = f"{unpaired} on one target only" if unpaired else ""
        pieces = [piece(" two targets", "title"), piece(targets, "strong"), piece(position), piece(note, "muted", 1)]
        return lambda width: fitted(pieces, width)

    def _show(self) -> None:
        self._title.update(self._heading())
        self._view.show(guarded(self._build))

    def _build(self) -> Document:
        return target_diff_document(
            self._snapshot, self._other, self._pairs[self._at], self._stage, self._view.text_width
        )

    def action_next_stage(self, by: int) -> None:
        self._stage = FORMS[(FORMS.index(self._stage) + by) % len(FORMS)]
        self._show()

    def action_next_kernel(self, by: int) -> None:
        self._at = (self._at + by) % len(self._pairs)
        self._show()
        self._view.move_to(0)

    def action_other_target(self, by: int) -> None:
        if len(self._others) == 1:
            self.say(f"The run has code for these two targets only: {hint('target')} in the panes adds another.")
            return
        kernel = self._pairs[self._at].left
        self._other = self._others[(self._others.index(self._other) + by) % len(self._others)]
        self._pairs = self._match()
        self._at = self._index_of(kernel)
        self._show()
