"""Everything that the user can do, once: keys, footer, help and command palette all come from this table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Scope = Literal[
    "view",
    "reading",
    "screen",
    "diff",
    "why",
    "target",
    "twice",
    "study",
    "matrix",
    "sweep",
    "storm",
    "blame",
    "cold",
    "ship",
    "cure",
    "app",
]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do.

    `keys` are textual's key names, comma-separated, none for what the command palette alone has; `run` the textual
    action in the class of `scope`: `view` is a view's rows, `reading` any screen with such views, `screen` the main
    one, `study` any screen of a study, `app` the app; `twice` is that of a kernel on two targets, and the others are
    called as their screens are. `shown` is the key as the footer and the help write it, `label` the footer's word,
    `help` a sentence. The footer shows the actions with a `rank`, the lowest ones where it is narrow.
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
    Action("left", "sideways(-8)", "view", "←", "left", "Scroll to the left"),
    Action("right", "sideways(8)", "view", "→", "right", "Scroll to the right, where a row ends in ›"),
    Action("enter", "enter", "view", "⏎", "open", "Open or fold a ▸ row; else follow the row into the next pane", 3),
    Action("f", "follow", "screen", "f", "follow", "Follow the row into the next pane, also a ▸ row"),
    Action("backspace", "trail(-1)", "screen", "bksp", "go back", "Back to where you followed from", 9),
    Action("F", "trail(1)", "screen", "F", "go forward", "Forward again, after going back"),
    Action("b", "next_break(1)", "screen", "b", "next break", "Go to the next graph break", 4),
    Action("B", "next_break(-1)", "screen", "B", "previous break", "Go to the previous graph break"),
    Action("right_parenthesis", "next_chapter(1)", "screen", ")", "next kernel", "The next kernel or graph with a hit"),
    Action(
        "left_parenthesis",
        "next_chapter(-1)",
        "screen",
        "(",
        "previous kernel",
        "The previous kernel or graph with a hit",
    ),
    Action("v", "next_view(1)", "screen", "v", "next view", "Show the pane's next view, named in its title", 5),
    Action("V", "next_view(-1)", "screen", "V", "previous view", "Show the pane's previous view"),
    Action("c", "code", "screen", "c", "as code", "Show the graph as torch's code, or as rows again"),
    Action("m", "mark", "screen", "m", "mark", "Mark the kernel or the cache entry under the cursor, for w"),
    Action("w", "why", "screen", "w", "why two", "Why the marked kernel, or cache entry, and this one are two"),
    Action("R", "would", "screen", "R", "would it recompile?", "Ask whether inputs that you type would recompile"),
    Action("h", "heal", "screen", "h", "heal", "A change that removes the graph break under the cursor, proven", 5),
    Action("T", "target", "app", "T", "target", "Choose the device to show the code for", 12),
    Action("K", "twice", "screen", "K", "two targets", "The kernel under the cursor on two targets, side by side"),
    Action("d", "diff", "app", "d", "compare", "Compare the run in view with the base, or with the run before", 6),
    Action("p", "base", "app", "p", "as base", "Make the run in view the base to compare with, or not any more"),
    Action("slash", "search", "reading", "/", "search", "Search in the rows", 4),
    Action("n", "next_match(1)", "reading", "n", "next match", "Go to the next match, else the next hit"),
    Action("N", "next_match(-1)", "reading", "N", "previous match", "Go to the previous match, else hit"),
    Action("escape", "back", "reading", "esc", "back", "Leave the search, the zoom, or what lies over the panes"),
    Action("e", "edit", "reading", "e", "edit", "Open $VISUAL or $EDITOR at the row's line", 7),
    Action("y", "copy", "reading", "y", "copy", "Copy the row", 10),
    Action("Y", "copy_all", "reading", "Y", "copy all", "Copy all rows"),
    Action("tab", "section(1)", "diff", "tab", "next part", "Go to the next part that differs", 1),
    Action("shift+tab", "section(-1)", "diff", "⇧tab", "previous part", "Go to the previous part that differs"),
    Action("left_square_bracket", "other_base(-1)", "diff", "[", "earlier base", "Compare with the run before that"),
    Action("right_square_bracket", "other_base(1)", "diff", "]", "later base", "Compare with the run after that"),
    Action("d", "leave", "diff", "d", "back", "Back to the panes"),
    Action("w,q", "leave", "why", "w q", "back", "Back to the panes"),
    Action("T,q", "leave", "target", "T q", "back", "Back to the panes"),
    Action("v", "next_stage(1)", "twice", "v", "next stage", "Compare the kernel's next stage", 1),
    Action("V", "next_stage(-1)", "twice", "V", "previous stage", "Compare the kernel's previous stage"),
    Action("left_square_bracket", "other_target(-1)", "twice", "[", "other target", "Compare with another target", 2),
    Action("right_square_bracket", "other_target(1)", "twice", "]", "other target", "Compare with another target"),
    Action("tab", "next_kernel(1)", "twice", "tab", "next kernel", "Go to the next kernel", 3),
    Action("shift+tab", "next_kernel(-1)", "twice", "⇧tab", "previous kernel", "Go to the previous kernel"),
    Action("K", "leave", "twice", "K", "back", "Back to the panes"),
    Action("x", "stop_study", "study", "x", "stop", "Stop the study; what it has found stays", 1),
    Action("r", "again", "study", "r", "again", "Begin the study anew, with the file as it is now", 2),
    Action("s", "sort", "matrix", "s", "sort", "Sort by the next figure", 3),
    Action("w", "write", "cure", "w", "write", "Write the proven change to your file", 1),
    Action("tab", "other", "cure", "tab", "another cure", "Try another change for the same break", 3),
    Action("u", "undo", "cure", "u", "undo", "Put your file back as it was before w", 2),
    Action("h,q", "leave", "cure", "h q", "back", "Back to the panes"),
    Action("M,q", "leave", "matrix", "M q", "back", "Back to the panes"),
    Action("w", "write", "blame", "w", "write reproducer", "Write a folder that shows the fault by itself", 3),
    Action("L,q", "leave", "blame", "L q", "back", "Back to the panes"),
    Action("L", "study('blame')", "app", "L", "ladder", "Which layer crashes or computes something else", 15),
    Action("C,q", "leave", "cold", "C q", "back", "Back to the panes"),
    Action("C", "study('cold')", "app", "C", "cold compile", "Compile with empty caches, then with warm ones", 16),
    Action("q", "leave", "ship", "q", "back", "Back to the panes"),
    Action("", "study('ship')", "app", "^p", "ship it", "Ship it: what torch can save of the compile"),
    Action("W,q", "leave", "storm", "W q", "back", "Back to the panes"),
    Action(
        "W", "study('storm')", "app", "W", "what if", "What if the inputs varied: recompiles, and what spares them", 16
    ),
    Action("S,q", "leave", "sweep", "S q", "back", "Back to the panes"),
    Action("S", "study('sweep')", "app", "S", "sweep", "One dimension of the inputs at several sizes", 14),
    Action("M", "study('matrix')", "app", "M", "matrix", "Every mode and backend side by side", 9),
    Action("left_square_bracket", "step(-1)", "app", "[", "earlier save", "Look at the save before"),
    Action("right_square_bracket", "step(1)", "app", "]", "later save", "Look at the save after"),
    Action("right_curly_bracket", "newest", "app", "}", "newest save", "Follow the newest save again"),
    Action("number_sign", "ask_calls", "app", "#", "how many calls", "What compiling wins or loses over N calls"),
    Action("r", "rerun", "app", "r", "run again", "Run the file again as it is", 11),
    Action("x", "stop_run", "app", "x", "stop", "Stop the run that is under way", 13),
    Action("u", "undo", "app", "u", "undo", "Take back the cure that was written last"),
    Action("t", "toggle_theme", "app", "t", "theme", "Change between the light and the dark theme"),
    Action("question_mark", "help", "app", "?", "help", "What the pane shows, and every key", 0),
    Action("ctrl+p", "command_palette", "app", "^p", "commands", "All commands, by name", 12),
    Action("ctrl+z", "suspend_process", "app", "^z", "suspend", "Back to the shell for a while (fg returns)"),
    Action("q", "quit", "app", "q", "quit", "Leave tcexplore", 1),
)


def bindings(scope: Scope) -> list[BindingType]:
    """The key bindings of a class."""
    return [Binding(a.keys, a.run, a.help, show=False, id=a.run) for a in ACTIONS if a.scope == scope and a.keys]


def available(scopes: Collection[Scope]) -> tuple[Action, ...]:
    """The actions of a screen: those of its scopes, without those of the app whose keys it has for itself."""
    own = {key for action in ACTIONS if action.scope in scopes and action.scope != "app" for key in _keys(action)}
    found = (action for action in ACTIONS if action.scope in scopes)
    return tuple(action for action in found if action.scope != "app" or own.isdisjoint(_keys(action)))


def _keys(action: Action) -> list[str]:
    return action.keys.split(",") if action.keys else []
