"""A few words asked of the user, over whatever is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Field(NamedTuple):
    """What is asked, what stands there at first, and what the answer is tried with: `check` raises `ValueError` with a
    sentence for the user where it is none."""

    label: str
    value: str
    check: Callable[[str], object]


class AskScreen(ModalScreen[tuple[str, ...] | None]):
    """Gives the answers, which have passed their checks, or None where the user left with escape."""

    CSS_PATH = "ask.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(self, title: str, fields: Sequence[Field], note: str = "") -> None:
        super().__init__()
        self._asked = title
        self._fields = tuple(fields)
        self._note = note

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._asked)
            box.border_subtitle = Content("⏎ goes on · esc leaves")
            for field in self._fields:
                yield Static(Content(field.label))
                yield Input(field.value, compact=True, select_on_focus=True)
            yield Static(Content(self._note), id="note")

    def on_mount(self) -> None:
        self.query(Input).first().focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        inputs = list(self.query(Input))
        for field, entered in zip(self._fields, inputs, strict=True):
            try:
                field.check(entered.value)
            except ValueError as error:
                self._say(str(error))
                entered.focus()
                return
            if entered is event.input and entered is not inputs[-1]:
                self.focus_next()
                return
        self.dismiss(tuple(entered.value for entered in inputs))

    def _say(self, trouble: str) -> None:
        note = self.query_one("#note", Static)
        note.update(Content(trouble))
        note.add_class("-trouble")
