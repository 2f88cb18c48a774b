"""Everything that the person can do, once: keys, footer, help and command palette all come from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Scope = Literal["view", "screen", "app"]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do.

    `keys` are textual's key names, comma-separated; `run` the textual action in the class of `scope` (`view` is a
    pane's lines, `screen` the main screen, `app` the app). `shown` is the key as the footer and the help write it,
    `label` the footer's word, `help` a sentence. The footer shows the actions with a `rank`, the lowest ones
    where it is narrow.
    """

    keys: str
    run: str
    scope: Scope
    shown: str
    label: str
    help: str
    rank: int | None = None


_PANES = ("source", "graph", "breaks", "guards", "code", "timing", "output")

ACTIONS: tuple[Action, ...] = (
    *(
        Action(str(n), f"show_pane('{pane}')", "screen", str(n), pane, f"Go to the {pane} pane")
        for n, pane in enumerate(_PANES, 1)
    ),
    Action("tab", "next_pane(1)", "screen", "tab", "next pane", "Go to the next pane"),
    Action("shift+tab", "next_pane(-1)", "screen", "⇧tab", "previous pane", "Go to the previous pane"),
    Action("z", "zoom", "screen", "z", "zoom", "Give the pane the whole screen, or share it again", 2),
    Action("up,k", "cursor(-1)", "view", "↑ k", "up", "One row up"),
    Action("down,j", "cursor(1)", "view", "↓ j", "down", "One row down"),
    Action("pageup", "page(-1)", "view", "PgUp", "page up", "One page up"),
    Action("pagedown,space", "page(1)", "view", "PgDn", "page down", "One page down"),
    Action("home,g", "to_end(-1)", "view", "Home g", "first", "The first row"),
    Action("end,G", "to_end(1)", "view", "End G", "last", "The last row"),
    Action("left,h", "sideways(-8)", "view", "← h", "left", "Scroll to the left"),
    Action("right,l", "sideways(8)", "view", "→ l", "right", "Scroll to the right, where a row ends in ›"),
    Action("enter", "enter", "view", "⏎", "follow", "Open or fold a ▸ row; else follow the row into the next pane", 3),
    Action("b", "next_break(1)", "screen", "b", "next break", "Go to the next graph break", 4),
    Action("B", "next_break(-1)", "screen", "B", "previous break", "Go to the previous graph break"),
    Action("c", "change_form", "screen", "c", "as code", "Show the graph as torch's code, or as rows again"),
    Action("slash", "search", "screen", "/", "search", "Search in the pane", 5),
    Action("n", "next_match(1)", "screen", "n", "next match", "Go to the next match"),
    Action("N", "next_match(-1)", "screen", "N", "previous match", "Go to the previous match"),
    Action("escape", "back", "screen", "esc", "back", "Leave the search, or the zoom"),
    Action("e", "edit", "screen", "e", "edit", "Open $VISUAL or $EDITOR at the row's line", 7),
    Action("y", "copy", "screen", "y", "copy", "Copy the row", 9),
    Action("Y", "copy_all", "screen", "Y", "copy all", "Copy all of the pane"),
    Action("left_square_bracket", "step(-1)", "app", "[", "earlier save", "Look at the save before"),
    Action("right_square_bracket", "step(1)", "app", "]", "later save", "Look at the save after"),
    Action("right_curly_bracket", "newest", "app", "}", "newest save", "Follow the newest save again"),
    Action("r", "rerun", "app", "r", "run again", "Run the file again as it is", 8),
    Action("x", "stop_run", "app", "x", "stop", "Stop the run that is under way", 10),
    Action("t", "toggle_theme", "app", "t", "theme", "Change between the light and the dark theme"),
    Action("question_mark", "help", "app", "?", "help", "What the pane shows, and every key", 0),
    Action("ctrl+p", "command_palette", "app", "^p", "commands", "All commands, by name", 11),
    Action("ctrl+z", "suspend_process", "app", "^z", "suspend", "Back to the shell for a while (fg returns)"),
    Action("q", "quit", "app", "q", "quit", "Leave tcexplore", 1),
)


def bindings(scope: Scope) -> list[BindingType]:
    """The key bindings of a class."""
    return [Binding(a.keys, a.run, a.help, show=False, id=a.run) for a in ACTIONS if a.scope == scope]
