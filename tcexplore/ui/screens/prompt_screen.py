"""A form over the screen that asks the user for values."""

from __future__ import annotations

import shlex
from argparse import ArgumentTypeError
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from tcexplore.argument_types import assignment
from tcexplore.studies.study import Prompt, PromptField


class PromptScreen(ModalScreen[tuple[str, ...] | None]):
    """Returns the values, all checked, or None if the user pressed escape."""

    CSS_PATH = Path(__file__).with_name("prompt.tcss")  # Textual resolves a bare name relative to the subclass
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self._prompt = prompt

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._prompt.title)
            for field in self._prompt.fields:
                yield Static(Content(field.label))
                yield _input(field)
            yield Static(Content(self._prompt.note), id="note")

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        # The inputs show the end of a long text at first, and a selection may lie before it.
        self.call_after_refresh(self._show_starts)

    def _show_starts(self) -> None:
        for entered, field in zip(self.query(Input), self._prompt.fields, strict=True):
            if field.selected is not None:
                entered.scroll_to(x=0, animate=False, immediate=True)

    def on_descendant_focus(self) -> None:
        last = self.focused is self.query(Input).last()
        self.query_one(Vertical).border_subtitle = Content(f"⏎ {'OK' if last else 'next'} · esc cancel")

    def valid_values(self) -> tuple[str, ...] | None:
        """Return the values if all are valid, else None."""
        values = tuple(entered.value for entered in self.query(Input))
        try:
            for field, value in zip(self._prompt.fields, values, strict=True):
                field.check(value)
        except ValueError:
            return None
        return values

    def on_input_submitted(self, event: Input.Submitted) -> None:
        inputs = list(self.query(Input))
        for field, entered in zip(self._prompt.fields, inputs, strict=True):
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
        note.display = True
        note.add_class("-error")


def _input(field: PromptField) -> Input:
    line = Input(field.value, compact=True, select_on_focus=field.selected is None)
    if field.selected is not None:
        line.selection = Selection(*field.selected)
    return line


def parse_arguments(text: str) -> tuple[str, ...]:
    """Return the arguments in `recompile_limit=4 name=block`. Raises `ValueError` with a message."""
    try:
        return tuple(map(assignment, shlex.split(text)))
    except ValueError as error:
        raise ValueError(f"Cannot split this into arguments: {str(error).lower()}.") from None
    except ArgumentTypeError as error:
        raise ValueError(f"{error}.") from None


def parse_calls(text: str) -> int | None:
    """Return the number in `1,000` or `1000`, None for an empty text. Raises `ValueError` with a message."""
    digits = text.replace(",", "").replace("_", "").replace(" ", "")
    if digits and (not digits.isdecimal() or not int(digits)):
        raise ValueError("A number of calls is a whole number above 0, such as 100,000.")
    return int(digits) if digits else None
