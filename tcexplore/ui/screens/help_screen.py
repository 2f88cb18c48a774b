"""The help: what is in view shows, and every key of it."""

from __future__ import annotations

from collections.abc import Collection
from importlib.resources import files
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Markdown, Static

from tcexplore.ui.actions import Scope, available


class HelpScreen(ModalScreen[None]):
    """A page over the main screen; any of the keys that leave things leaves it."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, name: str, title: str, scopes: Collection[Scope]) -> None:
        super().__init__()
        self._page, self._heading, self._scopes = name, title, scopes

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = self._heading
            page.border_subtitle = "esc closes"
            yield Markdown(text_of(self._page), open_links=False)
            yield Static(keys(self._scopes))


def text_of(name: str) -> str:
    """The page of this name, in Markdown: a pane's, or that of another screen."""
    page = files("tcexplore.ui.help") / f"{name}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else ""


def keys(scopes: Collection[Scope]) -> Content:
    """Every key of a screen with what it does."""
    actions = available(scopes)
    width = max(len(action.shown) for action in actions) + 2
    lines = [Content.assemble((action.shown.ljust(width), "bold"), action.help) for action in actions]
    return Content("\n").join([Content.styled("Keys", "bold underline"), *lines])
