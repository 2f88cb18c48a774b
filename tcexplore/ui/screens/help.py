"""The help: what the pane in focus shows, and every key."""

from __future__ import annotations

from importlib.resources import files
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Markdown, Static

from tcexplore.ui.actions import ACTIONS
from tcexplore.ui.panes import PaneSpec


class HelpScreen(ModalScreen[None]):
    """A page over the main screen; any of the keys that leave things leaves it."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, spec: PaneSpec) -> None:
        super().__init__()
        self._spec = spec

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = f"{self._spec.number} {self._spec.title}"
            page.border_subtitle = "esc closes"
            yield Markdown(text_of(self._spec.id), open_links=False)
            yield Static(keys())


def text_of(pane: str) -> str:
    """The pane's help, in Markdown."""
    page = files("tcexplore.ui.help") / f"{pane}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else ""


def keys() -> Content:
    """Every key with what it does."""
    width = max(len(action.shown) for action in ACTIONS) + 2
    lines = [Content.assemble((action.shown.ljust(width), "bold"), action.help) for action in ACTIONS]
    return Content("\n").join([Content.styled("Keys", "bold underline"), *lines])
