"""The help: a page on what is in view, and every key."""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources import files
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Markdown, Static

from tcexplore.keymap import TASKS, Scope, available, hint


class HelpScreen(ModalScreen[None]):
    """A help page over another screen."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, name: str, title: str, scopes: Collection[Scope]) -> None:
        super().__init__()
        self._page, self._heading, self._scopes = name, title, scopes

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = self._heading
            page.border_subtitle = f"{hint('back')} closes"
            yield Markdown(page_text(self._page), open_links=False)
            yield Static(keys(self._scopes))


def page_text(name: str) -> str:
    """Return the Markdown page of a pane or a screen with the keys of the actions in braces; empty if there is none."""
    page = files("tcexplore.ui.help") / f"{name}.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return re.sub(r"{([a-z-]+)}", lambda action: hint(action[1]), text)


def keys(scopes: Collection[Scope]) -> Content:
    """Return every key of a screen with its help, grouped by task."""
    actions = [action for action in available(scopes) if action.keys]
    width = max(len(action.shown) for action in actions) + 2
    blocks = []
    for task in TASKS:
        lines = [
            Content.assemble((action.shown.ljust(width), "bold"), action.help)
            for action in actions
            if action.task == task
        ]
        if lines:
            blocks.append(Content("\n").join([Content.styled(task, "bold underline"), *lines]))
    return Content("\n\n").join(blocks)
