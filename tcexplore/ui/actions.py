"""The table of everything the user can do: keys, footer, help and command palette are derived from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

from tcexplore.studies.registry import STUDIES

Scope = Literal[
    "view",
    "reading",
    "main",
    "diff",
    "answer",
    "target",
    "target_diff",
    "study",
    "modes",
    "bisect",
    "fix",
    "ranks",
    "app",
]
"""Where an action works: `view` in a view's rows, `reading` on any screen with such a view, `study` on any study's
screen, `app` everywhere, the others on the screen of that name."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the user."""

    keys: str
    """Textual's key names, separated by commas; empty for actions that only the command palette has."""
    run: str
    """The Textual action in the class of `scope`."""
    scope: Scope
    shown: str
    """The keys as footer and help show them."""
    label: str
    """The label in the footer."""
    help: str
    rank: int | None = None
    """The place in a footer that has no room for all; None for actions that only the footers of `panes` show."""
    panes: str = ""
    """Panes whose footer shows the action first."""
    keywords: str = ""
    """More words under which the command palette finds it."""


_PANES = ("source", "graph", "breaks", "guards", "code", "timing", "output")

_STUDY_PANES = {"modes": "timing", "sweep": "timing", "cold": "timing", "recompiles": "guards"}
_STUDY_KEYWORDS = {
    "modes": "options backends config fastest", "sweep": "batch size scaling", "recompiles": "batch dynamic shapes",
    "bisect": "wrong result accuracy crash blame minifier", "artifacts": "cache export ship deploy",
    "cold": "compile time cache startup",
}  # fmt: skip

ACTIONS: tuple[Action, ...] = (
    *(
        Action(str(n), f"show_pane('{pane}')", "main", str(n), pane, f"Go to the {pane} pane")
        for n, pane in enumerate(_PANES, 1)
    ),
    Action("tab", "next_pane(1)", "main", "tab", "next pane", "Go to the next pane"),
    Action("shift+tab", "next_pane(-1)", "main", "⇧tab", "previous pane", "Go to the previous pane"),
    Action("z", "zoom", "main", "z", "zoom", "Toggle zoom", 2),
    Action(
        "greater_than_sign",
        "resize(1, 0)",
        "main",
        ">",
        "wider",
        "Make the pane wider; the size is remembered",
        keywords="layout resize",
    ),
    Action("less_than_sign", "resize(-1, 0)", "main", "<", "narrower", "Make the pane narrower"),
    Action("plus", "resize(0, 1)", "main", "+", "taller", "Make the pane taller"),
    Action("minus", "resize(0, -1)", "main", "-", "lower", "Make the pane lower"),
    Action("0", "default_sizes", "main", "0", "default sizes", "Give all panes their default sizes", keywords="layout"),
    Action("up,k", "cursor(-1)", "view", "↑ k", "up", "One row up"),
    Action("down,j", "cursor(1)", "view", "↓ j", "down", "One row down"),
    Action("pageup", "page(-1)", "view", "PgUp", "page up", "One page up"),
    Action("pagedown,space", "page(1)", "view", "PgDn", "page down", "One page down"),
    Action("home,g", "to_end(-1)", "view", "Home g", "first", "The first row"),
    Action("end,G", "to_end(1)", "view", "End G", "last", "The last row"),
    Action("left", "sideways(-8)", "view", "←", "left", "Scroll to the left"),
    Action("right", "sideways(8)", "view", "→", "right", "Scroll to the right if a row ends in ›"),
    Action("enter", "enter", "view", "⏎", "open", "Open or fold a ▸ row, else follow the row to the next pane", 3),
    Action("f", "follow", "main", "f", "follow", "Follow the row to the next pane, also a ▸ row"),
    Action("backspace", "jump(-1)", "main", "bksp", "go back", "Go back to where you followed from", 9),
    Action("F", "jump(1)", "main", "F", "go forward", "Go forward again"),
    Action("b", "next_break(1)", "main", "b", "next break", "Go to the next graph break", 4, "source breaks graph"),
    Action("B", "next_break(-1)", "main", "B", "previous break", "Go to the previous graph break"),
    Action("right_parenthesis", "next_chapter(1)", "main", ")", "next kernel", "Next kernel with a highlighted row"),
    Action(
        "left_parenthesis", "next_chapter(-1)", "main", "(", "previous kernel", "Previous kernel with a highlighted row"
    ),
    Action("v", "next_view(1)", "main", "v", "next view", "Show the pane's next view, named in its title", 5),
    Action("V", "next_view(-1)", "main", "V", "previous view", "Show the pane's previous view"),
    Action("c", "code", "main", "c", "as code", "Show the graph as code, or as rows again", panes="graph"),
    Action(
        "m",
        "mark",
        "main",
        "m",
        "mark",
        "Mark the kernel or the cache entry under the cursor, for =",
        panes="code guards",
    ),
    Action(
        "equals_sign",
        "compare_marked",
        "main",
        "=",
        "compare",
        "Compare the marked kernel or cache entry with this one",
        panes="code guards",
        keywords="why not fused fusion differ",
    ),
    Action(
        "R",
        "recompile_check",
        "main",
        "R",
        "recompile check",
        "Check whether other inputs would recompile",
        panes="guards",
        keywords="batch shape size guard dynamic",
    ),
    Action(
        "h",
        "fix",
        "main",
        "h",
        "fix",
        "Try and verify fixes for the graph break under the cursor",
        5,
        "source breaks",
        "repair remove edit",
    ),
    Action(
        "T",
        "target",
        "app",
        "T",
        "target",
        "Choose the target to generate code for",
        12,
        "code",
        "gpu ptx cuda h100 triton device",
    ),
    Action(
        "K",
        "target_diff",
        "main",
        "K",
        "two targets",
        "Compare the kernel under the cursor on two targets",
        panes="code",
        keywords="gpu ptx registers",
    ),
    Action("d", "diff", "app", "d", "diff", "Diff the run in view with the base or the previous run", 6),
    Action(
        "p",
        "base",
        "app",
        "p",
        "as base",
        "Use the run in view as the base of diffs, or stop using it",
        keywords="baseline",
    ),
    Action("slash", "search", "reading", "/", "search", "Search in the rows", 4),
    Action("n", "next_match(1)", "reading", "n", "next match", "Go to the next match or highlighted row"),
    Action("N", "next_match(-1)", "reading", "N", "previous match", "Go to the previous match or highlighted row"),
    Action("escape", "back", "reading", "esc", "back", "Leave the search, the zoom, or this screen"),
    Action("e", "edit", "reading", "e", "edit", "Open $VISUAL or $EDITOR at the row's line", 7),
    Action("y", "copy", "reading", "y", "copy", "Copy the row", 10),
    Action("Y", "copy_all", "reading", "Y", "copy all", "Copy all rows"),
    Action("tab", "section(1)", "diff", "tab", "next part", "Go to the next part with differences", 1),
    Action("shift+tab", "section(-1)", "diff", "⇧tab", "previous part", "Go to the previous part with differences"),
    Action("left_square_bracket", "other_base(-1)", "diff", "[", "earlier base", "Diff with an earlier run"),
    Action("right_square_bracket", "other_base(1)", "diff", "]", "later base", "Diff with a later run"),
    Action("d", "leave", "diff", "d", "back", "Back to the panes"),
    Action("equals_sign,q", "leave", "answer", "= q", "back", "Back to the panes"),
    Action("T,q", "leave", "target", "T q", "back", "Back to the panes"),
    Action("v", "next_stage(1)", "target_diff", "v", "next stage", "Compare the kernel's next stage", 1),
    Action("V", "next_stage(-1)", "target_diff", "V", "previous stage", "Compare the kernel's previous stage"),
    Action(
        "left_square_bracket", "other_target(-1)", "target_diff", "[", "other target", "Compare with another target", 2
    ),
    Action(
        "right_square_bracket", "other_target(1)", "target_diff", "]", "other target", "Compare with another target"
    ),
    Action("tab", "next_kernel(1)", "target_diff", "tab", "next kernel", "Go to the next kernel", 3),
    Action("shift+tab", "next_kernel(-1)", "target_diff", "⇧tab", "previous kernel", "Go to the previous kernel"),
    Action("K", "leave", "target_diff", "K", "back", "Back to the panes"),
    Action("x", "stop_study", "study", "x", "stop", "Stop the study and keep its results", 1),
    Action("r", "again", "study", "r", "again", "Restart the study with the current file", 2),
    Action("q", "leave", "study", "q", "back", "Back to the panes"),
    Action("s", "sort", "modes", "s", "sort", "Sort by the next column", 3),
    Action("w", "write", "bisect", "w", "write reproducer", "Write a folder that reproduces the failure", 3),
    Action("w", "write", "fix", "w", "write", "Write the verified fix to your file", 1),
    Action("tab", "other", "fix", "tab", "another fix", "Try another fix for the same break", 3),
    Action("u", "undo", "fix", "u", "undo", "Undo the written fix in your file", 2),
    Action("h", "leave", "fix", "h", "back", "Back to the panes"),
    Action("o,q", "leave", "ranks", "o q", "back", "Back to the panes"),
    *(
        Action(
            entry.key,
            f"study('{entry.name}')",
            "app",
            entry.key or "^p",
            entry.label,
            entry.summary,
            entry.rank,
            _STUDY_PANES.get(entry.name, ""),
            _STUDY_KEYWORDS.get(entry.name, ""),
        )
        for entry in STUDIES
        if entry.label
    ),
    Action("left_square_bracket", "step(-1)", "app", "[", "earlier save", "Show the previous save"),
    Action("right_square_bracket", "step(1)", "app", "]", "later save", "Show the next save"),
    Action("right_curly_bracket", "newest", "app", "}", "newest save", "Follow the newest save again"),
    Action("o", "ranks", "app", "o", "ranks", "Show the ranks of a trace, and the first difference between them"),
    Action(
        "number_sign",
        "ask_calls",
        "app",
        "#",
        "number of calls",
        "Show the net gain over N calls",
        panes="timing",
        keywords="break-even pays off compile time",
    ),
    Action("r", "rerun", "app", "r", "run again", "Run the file again", 11),
    Action("x", "stop_run", "app", "x", "stop", "Stop the current run", 13),
    Action("u", "undo", "app", "u", "undo", "Undo the last written fix"),
    Action("t", "toggle_theme", "app", "t", "theme", "Switch between the light and the dark theme"),
    Action("question_mark", "help", "app", "?", "help", "Help for this pane, and all keys", 0),
    Action(
        "ctrl+p,colon", "command_palette", "app", ":", "commands", "All commands, views, targets and places, by name", 3
    ),
    Action(
        "",
        "export('svg')",
        "app",
        "^p",
        "screenshot",
        "Save a screenshot of the screen as SVG",
        keywords="export picture image",
    ),
    Action(
        "",
        "export('html')",
        "app",
        "^p",
        "export HTML",
        "Save the run as one linked HTML page",
        keywords="export report save share",
    ),
    Action(
        "",
        "export('txt')",
        "app",
        "^p",
        "export text",
        "Save the report of the run as text",
        keywords="export share",
    ),
    Action("", "export('json')", "app", "^p", "export JSON", "Save the run as JSON", keywords="export report"),
    Action("ctrl+z", "suspend_process", "app", "^z", "suspend", "Suspend (fg resumes)"),
    Action("q", "quit", "app", "q", "quit", "Quit tcexplore", 1),
)


def bindings(scope: Scope) -> list[BindingType]:
    """Return the key bindings of a class."""
    return [Binding(a.keys, a.run, a.help, show=False, id=a.run) for a in ACTIONS if a.scope == scope and a.keys]


def available(scopes: Collection[Scope]) -> tuple[Action, ...]:
    """Return the actions of a screen: those of its scopes, except app actions whose keys the screen overrides."""
    overridden = {
        key for action in ACTIONS if action.scope in scopes and action.scope != "app" for key in _keys(action)
    }
    actions = (action for action in ACTIONS if action.scope in scopes)
    return tuple(action for action in actions if action.scope != "app" or overridden.isdisjoint(_keys(action)))


TASKS: dict[str, tuple[str, ...]] = {
    "Panes and views": ("show_pane", "next_pane", "zoom", "resize", "default_sizes", "next_view", "code"),
    "Move and follow": (
        "cursor", "page", "to_end", "sideways", "enter", "follow", "jump", "next_break", "next_chapter", "section",
        "next_kernel", "next_stage",
    ),
    "Search, copy, edit": ("search", "next_match", "back", "edit", "copy", "copy_all"),
    "Fix breaks, avoid recompiles": ("fix", "other", "write", "undo", "recompile_check"),
    "Kernels and targets": ("mark", "compare_marked", "target", "target_diff", "other_target"),
    "Runs": ("diff", "base", "other_base", "step", "newest", "rerun", "stop_run", "ask_calls", "ranks", "export"),
    "Studies: many runs": ("study", "stop_study", "again", "sort"),
}  # fmt: skip
"""The tasks of the help, each with the actions that it needs."""

OTHER_TASK = "The app"


def task_of(action: Action) -> str:
    """Return the task that the help lists an action under."""
    name = action.run.partition("(")[0]
    return next((task for task, names in TASKS.items() if name in names), OTHER_TASK)


def _keys(action: Action) -> list[str]:
    return action.keys.split(",") if action.keys else []
