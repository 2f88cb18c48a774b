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

from tcexplore.keymap import TASKS, Action, Scope, available, grouped, hint


class HelpScreen(ModalScreen[None]):
    """A help page over another screen."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, name: str, title: str, scopes: Collection[Scope], *, trace: bool = False) -> None:
        super().__init__()
        self._page, self._heading, self._scopes, self._trace = name, title, scopes, trace

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = self._heading
            page.border_subtitle = f"{hint('back')} closes"
            yield Markdown(page_text(self._page), open_links=False)
            yield Static(keys(self._scopes, trace=self._trace))


def page_text(name: str) -> str:
    """Return the Markdown page of a pane or a screen with the keys of the actions in braces; empty if there is none."""
    page = files("tcexplore.ui.help") / f"{name}.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return re.sub(r"{([a-z-]+)}", lambda action: hint(action[1]), text)


def keys(scopes: Collection[Scope], *, trace: bool = False) -> Content:
    """Return every key of a screen with its help, grouped by task; `trace` if the runs are ranks of a trace."""
    groups = grouped([action for action in available(scopes) if not (action.live if trace else action.of_trace)])
    width = max(len(_shown(group)) for group in groups) + 2
    blocks = []
    for task in TASKS:
        lines = [
            Content.assemble((_shown(group).ljust(width), "bold"), _help(group))
            for group in groups
            if group[0].task == task
        ]
        if lines:
            blocks.append(Content("\n").join([Content.styled(task, "bold underline"), *lines]))
    return Content("\n\n").join(blocks)


def _shown(group: tuple[Action, ...]) -> str:
    """Return the keys of a group: `v V`, or `1 … 7` for the panes."""
    if len(group) > 2:
        return f"{hint(group[0].name)} … {hint(group[-1].name)}"
    return "  ".join(action.shown for action in group)


def _help(group: tuple[Action, ...]) -> str:
    first, *others = group
    if len(group) > 2:
        return f"Go to a pane: {', '.join(action.label for action in group)}"
    return "".join((first.help, *(f"; {hint(other.name)} {other.label}" for other in others)))
