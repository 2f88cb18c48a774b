"""The table of everything the user can do: keys, footer, help and command palette are derived from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from textual.binding import Binding, BindingType

from tcexplore.keymap import Scope, default_keys, keys_of, shown_key
from tcexplore.studies.registry import STUDIES


class Action(NamedTuple):
    """One action of the user."""

    name: str
    """Its name in a keymap."""
    run: str
    """The Textual action in the class of `scope`."""
    scope: Scope
    label: str
    """The label in the footer."""
    help: str
    rank: int | None = None
    """The place in a footer that has no room for all; None for actions that only the footers of `panes` show."""
    panes: str = ""
    """Panes whose footer shows the action first. Without a `rank`, it is less important in all but the first."""
    keywords: str = ""
    """More words under which the command palette finds it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Textual's names of its keys; none for actions that only the command palette has."""
        return keys_of(self.name)

    @property
    def shown(self) -> str:
        """Its keys as the help shows them."""
        return " ".join(map(shown_key, self.keys))


_PANES = ("source", "graph", "breaks", "guards", "code", "timing", "output")

_STUDY_PANES = {"modes": "timing", "sweep": "timing", "cold": "timing", "recompiles": "guards"}
_STUDY_KEYWORDS = {
    "modes": "options backends config fastest best mode",
    "sweep": "batch sizes scaling compiling worth pays off faster",
    "recompiles": "batch dynamic shapes recompiling stop prevent",
    "bisect": "wrong result accuracy crash blame minifier", "artifacts": "cache export ship deploy",
    "cold": "compile time cache startup",
}  # fmt: skip

ACTIONS: tuple[Action, ...] = (
    *(Action(f"{pane}-pane", f"show_pane('{pane}')", "main", pane, f"Go to the {pane} pane") for pane in _PANES),
    Action("next-pane", "next_pane(1)", "main", "next pane", "Go to the next pane"),
    Action("previous-pane", "next_pane(-1)", "main", "previous pane", "Go to the previous pane"),
    Action("zoom", "zoom", "main", "zoom", "Toggle zoom", 2),
    Action(
        "wider",
        "resize(1, 0)",
        "main",
        "wider",
        "Make the pane wider; the size is remembered",
        keywords="layout resize",
    ),
    Action("narrower", "resize(-1, 0)", "main", "narrower", "Make the pane narrower"),
    Action("taller", "resize(0, 1)", "main", "taller", "Make the pane taller"),
    Action("lower", "resize(0, -1)", "main", "lower", "Make the pane lower"),
    Action(
        "default-sizes",
        "default_sizes",
        "main",
        "default sizes",
        "Give all panes their default sizes",
        keywords="layout",
    ),
    Action("up", "cursor(-1)", "view", "up", "One row up"),
    Action("down", "cursor(1)", "view", "down", "One row down"),
    Action("page-up", "page(-1)", "view", "page up", "One page up"),
    Action("page-down", "page(1)", "view", "page down", "One page down"),
    Action("first", "to_end(-1)", "view", "first", "The first row"),
    Action("last", "to_end(1)", "view", "last", "The last row"),
    Action("left", "sideways(-8)", "view", "left", "Scroll to the left"),
    Action("right", "sideways(8)", "view", "right", "Scroll to the right if a row ends in ›"),
    Action("open", "enter", "view", "open", "Open or fold a ▸ row, else follow the row to the next pane", 3),
    Action("follow", "follow", "main", "follow", "Follow the row to the next pane, also a ▸ row"),
    Action("go-back", "jump(-1)", "main", "go back", "Go back to where you followed from", 9),
    Action("go-forward", "jump(1)", "main", "go forward", "Go forward again"),
    Action("next-break", "next_break(1)", "main", "next break", "Go to the next graph break", 4, "source breaks graph"),
    Action("previous-break", "next_break(-1)", "main", "previous break", "Go to the previous graph break"),
    Action("next-kernel", "next_chapter(1)", "main", "next kernel", "Next kernel with a highlighted row"),
    Action("previous-kernel", "next_chapter(-1)", "main", "previous kernel", "Previous kernel with a highlighted row"),
    Action(
        "next-view",
        "next_view(1)",
        "main",
        "view",
        "Show the pane's next view, named in its title",
        5,
        "graph guards code timing",
    ),
    Action("previous-view", "next_view(-1)", "main", "previous view", "Show the pane's previous view"),
    Action("as-code", "code", "main", "as code", "Show the graph as code, or as rows again", panes="graph"),
    Action(
        "mark",
        "mark",
        "main",
        "mark",
        "Mark the kernel or the cache entry under the cursor, to compare it",
        panes="code guards",
    ),
    Action(
        "compare",
        "compare_marked",
        "main",
        "compare",
        "Compare the marked kernel or cache entry with this one",
        panes="code guards",
        keywords="kernels fused fusion apart differ",
    ),
    Action(
        "recompile-check",
        "recompile_check",
        "main",
        "recompile check",
        "Check whether other inputs would recompile",
        panes="guards",
        keywords="batch shapes sizes guard dynamic",
    ),
    Action(
        "fix",
        "fix",
        "main",
        "fix",
        "Try and verify fixes for the graph break under the cursor",
        5,
        "source breaks",
        "repair remove edit instead rewrite gain faster",
    ),
    Action(
        "row-guards",
        "row_guards",
        "main",
        "guards",
        "Go to the guards that come from the line under the cursor",
        keywords="conditions recompile row",
    ),
    Action(
        "machine-code",
        "machine_code",
        "main",
        "PTX",
        "Show the PTX or other machine code of the line or the kernel under the cursor",
        13,
        "source code",
        "sass amdgcn assembly gpu target h100",
    ),
    Action(
        "target",
        "target",
        "app",
        "target",
        "Choose the target to generate code for",
        12,
        "code",
        "gpu ptx cuda h100 triton device",
    ),
    Action(
        "target-diff",
        "target_diff",
        "main",
        "two targets",
        "Compare the kernel under the cursor on two targets",
        panes="code",
        keywords="gpu ptx registers",
    ),
    Action(
        "diff",
        "diff",
        "app",
        "diff",
        "Diff the run in view with the base or the previous run",
        6,
        keywords="changed changes since last save compare",
    ),
    Action(
        "base",
        "base",
        "app",
        "as base",
        "Use the run in view as the base of diffs, or stop using it",
        keywords="baseline",
    ),
    Action("search", "search", "reading", "search", "Search in the rows", 4),
    Action("next-match", "next_match(1)", "reading", "next match", "Go to the next match or highlighted row"),
    Action(
        "previous-match", "next_match(-1)", "reading", "previous match", "Go to the previous match or highlighted row"
    ),
    Action("back", "back", "reading", "back", "Leave the search, the zoom, or this screen"),
    Action("edit", "edit", "reading", "edit", "Open $VISUAL or $EDITOR at the row's line", 7),
    Action("copy", "copy", "reading", "copy", "Copy the row", 10),
    Action("copy-all", "copy_all", "reading", "copy all", "Copy all rows"),
    Action("diff-next-part", "section(1)", "diff", "next part", "Go to the next part with differences", 1),
    Action("diff-previous-part", "section(-1)", "diff", "previous part", "Go to the previous part with differences"),
    Action("diff-earlier-base", "other_base(-1)", "diff", "earlier base", "Diff with an earlier run"),
    Action("diff-later-base", "other_base(1)", "diff", "later base", "Diff with a later run"),
    Action("diff-back", "leave", "diff", "back", "Back to the panes"),
    Action("answer-back", "leave", "answer", "back", "Back to the panes"),
    Action("target-back", "leave", "target", "back", "Back to the panes"),
    Action(
        "target-diff-next-stage", "next_stage(1)", "target_diff", "next stage", "Compare the kernel's next stage", 1
    ),
    Action(
        "target-diff-previous-stage",
        "next_stage(-1)",
        "target_diff",
        "previous stage",
        "Compare the kernel's previous stage",
    ),
    Action(
        "target-diff-previous-target",
        "other_target(-1)",
        "target_diff",
        "other target",
        "Compare with another target",
        2,
    ),
    Action("target-diff-next-target", "other_target(1)", "target_diff", "other target", "Compare with another target"),
    Action("target-diff-next-kernel", "next_kernel(1)", "target_diff", "next kernel", "Go to the next kernel", 3),
    Action(
        "target-diff-previous-kernel", "next_kernel(-1)", "target_diff", "previous kernel", "Go to the previous kernel"
    ),
    Action("target-diff-back", "leave", "target_diff", "back", "Back to the panes"),
    Action("study-stop", "stop_study", "study", "stop", "Stop the study and keep its results", 1),
    Action("study-again", "again", "study", "again", "Restart the study with the current file", 2),
    Action("study-zoom", "zoom", "study", "zoom", "Show the study on the whole screen, or below the panes", 4),
    Action("study-back", "leave", "study", "back", "Back to the panes"),
    Action("modes-sort", "sort", "modes", "sort", "Sort by the next column", 3),
    Action(
        "modes-environments",
        "environments",
        "modes",
        "environments",
        "Compare environments, such as two versions of torch",
        5,
        keywords="python version upgrade nightly",
    ),
    Action("environments-modes", "modes", "environments", "modes", "Compare the modes instead", 5),
    Action(
        "bisect-write-reproducer",
        "write",
        "bisect",
        "write reproducer",
        "Write a folder that reproduces the failure",
        3,
    ),
    Action("fix-write", "write", "fix", "write", "Write the verified fix to your file", 1),
    Action("fix-another-fix", "other", "fix", "another fix", "Try another fix for the same break", 3),
    Action("fix-undo", "undo", "fix", "undo", "Undo the written fix in your file", 2),
    Action("fix-back", "leave", "fix", "back", "Back to the panes"),
    Action("ranks-back", "leave", "ranks", "back", "Back to the panes"),
    *(
        Action(
            entry.name,
            f"study('{entry.name}')",
            "app",
            entry.label,
            entry.summary,
            entry.rank,
            _STUDY_PANES.get(entry.name, ""),
            _STUDY_KEYWORDS.get(entry.name, ""),
        )
        for entry in STUDIES
        if entry.label
    ),
    Action("earlier-save", "step(-1)", "app", "earlier save", "Show the previous save, also of earlier starts"),
    Action("later-save", "step(1)", "app", "later save", "Show the next save"),
    Action("newest-save", "newest", "app", "newest save", "Follow the newest save again"),
    Action("ranks", "ranks", "app", "ranks", "Show the ranks of a trace, and the first difference between them"),
    Action(
        "calls",
        "ask_calls",
        "app",
        "calls",
        "Show the net gain over N calls",
        panes="timing",
        keywords="break-even pays off compile time",
    ),
    Action(
        "compile-arguments",
        "compile_arguments",
        "app",
        "arguments",
        "Compile with further arguments of torch.compile",
        keywords="option config recompile_limit isolate_recompiles name dynamic_shapes shapes_spec options",
    ),
    Action("run-again", "rerun", "app", "run again", "Run the file again", 11),
    Action("stop", "stop_run", "app", "stop", "Stop the current run", 13),
    Action("undo", "undo", "app", "undo", "Undo the last written fix"),
    Action("theme", "toggle_theme", "app", "theme", "Switch between the light and the dark theme"),
    Action("help", "help", "app", "help", "Help for this pane, and all keys", 0),
    Action("commands", "command_palette", "app", "commands", "All commands, views, targets and places, by name", 3),
    Action(
        "screenshot",
        "export('svg')",
        "app",
        "screenshot",
        "Save a screenshot of the screen as SVG",
        keywords="export picture image",
    ),
    Action(
        "export-html",
        "export('html')",
        "app",
        "export HTML",
        "Save the run as one linked HTML page",
        keywords="export report save share",
    ),
    Action(
        "export-text",
        "export('txt')",
        "app",
        "export text",
        "Save the report of the run as text",
        keywords="export share",
    ),
    Action("export-json", "export('json')", "app", "export JSON", "Save the run as JSON", keywords="export report"),
    Action("suspend", "suspend_process", "app", "suspend", "Suspend (fg resumes)"),
    Action("quit", "quit", "app", "quit", "Quit tcexplore", 1, keywords="exit leave"),
)


def bindings(scope: Scope) -> list[BindingType]:
    """Return the default key bindings of a class. Their ids are the actions' names, by which a keymap changes them."""
    return [
        Binding(keys, action.run, action.help, show=False, id=action.name)
        for action in ACTIONS
        if action.scope == scope and (keys := default_keys(action.name))
    ]


def available(scopes: Collection[Scope]) -> tuple[Action, ...]:
    """Return the actions of a screen: those of its scopes, except app actions whose keys the screen overrides."""
    overridden = {key for action in ACTIONS if action.scope in scopes and action.scope != "app" for key in action.keys}
    actions = (action for action in ACTIONS if action.scope in scopes)
    return tuple(action for action in actions if action.scope != "app" or overridden.isdisjoint(action.keys))


TASKS: dict[str, tuple[str, ...]] = {
    "Panes and views": ("show_pane", "next_pane", "zoom", "resize", "default_sizes", "next_view", "code"),
    "Move and follow": (
        "cursor", "page", "to_end", "sideways", "enter", "follow", "jump", "next_break", "next_chapter", "section",
        "next_kernel", "next_stage", "row_guards",
    ),
    "Search, copy, edit": ("search", "next_match", "back", "edit", "copy", "copy_all"),
    "Fix breaks, avoid recompiles": ("fix", "other", "write", "undo", "recompile_check"),
    "Kernels and targets": ("mark", "compare_marked", "machine_code", "target", "target_diff", "other_target"),
    "Runs": ("diff", "base", "other_base", "step", "newest", "rerun", "compile_arguments", "stop_run", "ask_calls",
        "ranks", "export"),
    "Studies: many runs": ("study", "stop_study", "again", "sort", "environments", "modes"),
}  # fmt: skip
"""The tasks of the help, each with the actions that it needs."""

OTHER_TASK = "The app"


def task_of(action: Action) -> str:
    """Return the task that the help lists an action under."""
    name = action.run.partition("(")[0]
    return next((task for task, names in TASKS.items() if name in names), OTHER_TASK)
