"""The line at the bottom for typing a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class SearchBar(Horizontal):
    """Hidden until it is opened; posts each change of the text, and when the user is done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "submit", show=False),
    ]

    @dataclass
    class Changed(Message):
        """The text to search for has changed."""

        text: str

    @dataclass
    class Closed(Message):
        """The user is done typing; `keep` the search for n and N."""

        keep: bool

    def compose(self) -> ComposeResult:
        yield Static(Content(" /"), id="search-mark")
        yield Input(placeholder="search in this pane", compact=True, select_on_focus=True)
        yield Static(id="search-count")

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self.query_one(Input).focus()

    def close(self) -> None:
        """Hide the line."""
        self.display = False

    def show_count(self, text: str) -> None:
        """Show how many matches there are."""
        self.query_one("#search-count", Static).update(Content(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Closed(keep=bool(event.value)))

    def action_submit(self) -> None:
        self.post_message(self.Closed(keep=True))

    def action_cancel(self) -> None:
        self.post_message(self.Closed(keep=False))
