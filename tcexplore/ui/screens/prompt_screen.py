"""A form over the screen that asks the user for values."""

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
    """One value to enter."""

    label: str
    value: str
    """The initial value."""
    check: Callable[[str], object]
    """Raises `ValueError` with a sentence for the user if a value is invalid."""


class PromptScreen(ModalScreen[tuple[str, ...] | None]):
    """Returns the values, all checked, or None if the user pressed escape."""

    CSS_PATH = "prompt.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(self, title: str, fields: Sequence[Field], note: str = "") -> None:
        super().__init__()
        self._prompt_title = title
        self._fields = tuple(fields)
        self._note = note

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._prompt_title)
            box.border_subtitle = Content("⏎ OK · esc cancel")
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
                self._show_error(str(error))
                entered.focus()
                return
            if entered is event.input and entered is not inputs[-1]:
                self.focus_next()
                return
        self.dismiss(tuple(entered.value for entered in inputs))

    def _show_error(self, message: str) -> None:
        note = self.query_one("#note", Static)
        note.update(Content(message))
        note.add_class("-error")
