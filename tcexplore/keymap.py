"""Everything that the user can do in the app: one row for each action, and the keys of the keymap in use.

Bindings, footers, help, command palette, presets and the hints in documents all read this table. A key is a character,
or one of the names that Textual gives to keys: `enter`, `ctrl+d`, `shift+tab`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

Scope = Literal[
    "view", "timeline", "reading", "main", "diff", "answer", "target", "target_diff", "study", "modes", "environments",
    "bisect", "fix", "ranks", "studies", "app",
]  # fmt: skip
"""Where an action works: `view` in a view's rows, `timeline` in those of a timeline, `reading` on any screen with such
a view, `study` on any study's screen, `app` everywhere, the others on the screen of that name."""

TASKS = (
    "Panes and views", "Move and follow", "Search, copy, edit", "Fix breaks, avoid recompiles", "Kernels and targets",
    "Runs", "Studies: many runs", "The app",
)  # fmt: skip
"""The groups of the help, in their order."""

PANES, MOVE, SEARCH, FIX, KERNELS, RUNS, STUDY, APP = TASKS


class Pair(NamedTuple):
    """One entry in the footer for several actions."""

    last: str
    """The last of the actions."""
    label: str
    priority: int
    separator: str = " "


class Action(NamedTuple):
    """One action of the user."""

    name: str
    """Its name in a keymap."""
    default_keys: str
    """Separated by commas; empty for an action that only the command palette has."""
    scope: Scope
    run: str
    """The Textual action in the class of `scope`."""
    label: str
    """The label in the footer."""
    help: str
    """Its title in the help and in the command palette."""
    task: str
    """The group of the help."""
    priority: int | None = None
    """The place in a footer that has no room for all; None for actions that only the footers of `panes` show."""
    panes: str = ""
    """Panes whose footer shows the action first. Without a `priority`, it is less important in all but the first."""
    keywords: str = ""
    """More words under which the command palette finds it."""
    live: bool = False
    """Whether it needs a live program: footers and help of traces leave it out."""
    of_trace: bool = False
    """Whether only traces have it: the help of live programs leaves it out."""
    pair: Pair | None = None
    """The entry in the footer that shows this action and others."""
    way_out: str = ""
    """The label of the first entry in the footer of a screen that the action leaves."""
    lazygit: str | None = None
    """Its keys in the preset that is close to lazygit, where they differ."""
    vim: str | None = None
    """The same for vim. `gg` is `g` twice."""
    back: str = ""
    """The action in the other direction, in the same row of the help."""
    menu: str = ""
    """Its key in the menu of studies."""
    question: str = ""
    """What it answers, in that menu."""
    of_gpu: bool = False
    """Whether it needs a GPU in this machine."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Textual's names of its keys."""
        return keys_of(self.name)

    @property
    def shown(self) -> str:
        """Its keys as the help shows them."""
        return " ".join(map(shown_key, self.keys))


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("source-pane", "1", "main", "show_pane('source')", "source", "Go to the source pane", PANES,
           pair=Pair("output-pane", "pane", 3, "-")),
    Action("graph-pane", "2", "main", "show_pane('graph')", "graph", "Go to the graph pane", PANES),
    Action("breaks-pane", "3", "main", "show_pane('breaks')", "breaks", "Go to the breaks pane", PANES),
    Action("guards-pane", "4", "main", "show_pane('guards')", "guards", "Go to the guards pane", PANES),
    Action("code-pane", "5", "main", "show_pane('code')", "code", "Go to the code pane", PANES),
    Action("timing-pane", "6", "main", "show_pane('timing')", "timing", "Go to the timing pane", PANES),
    Action("output-pane", "7", "main", "show_pane('output')", "output", "Go to the output pane", PANES),
    Action("next-pane", "tab", "main", "next_pane(1)", "next pane", "Go to the next pane", PANES, lazygit="right,l,tab",
           vim="ctrl+w,tab", back="previous-pane"),
    Action("previous-pane", "shift+tab", "main", "next_pane(-1)", "previous pane", "Go to the previous pane", PANES,
           lazygit="left,h,shift+tab"),
    Action("zoom", "z", "main", "zoom", "zoom", "Toggle zoom", PANES, priority=2, lazygit="+,_"),
    Action("wider", "", "main", "resize(1, 0)", "wider", "Make the pane wider; the size is remembered", PANES,
           keywords="layout resize", lazygit="ctrl+right"),
    Action("narrower", "", "main", "resize(-1, 0)", "narrower", "Make the pane narrower", PANES, lazygit="ctrl+left"),
    Action("taller", "", "main", "resize(0, 1)", "taller", "Make the pane taller", PANES, lazygit="ctrl+up"),
    Action("lower", "", "main", "resize(0, -1)", "lower", "Make the pane lower", PANES, lazygit="ctrl+down"),
    Action("default-sizes", "", "main", "default_sizes", "default sizes", "Size all panes by their content", PANES,
           keywords="layout"),
    Action("up", "up,k", "view", "cursor(-1)", "up", "One row up", MOVE, back="down"),
    Action("down", "down,j", "view", "cursor(1)", "down", "One row down", MOVE),
    Action("page-up", "pageup", "view", "page(-1)", "page up", "One page up", MOVE, lazygit="pageup,comma,ctrl+u",
           vim="pageup,ctrl+b,ctrl+u", back="page-down"),
    Action("page-down", "pagedown,space", "view", "page(1)", "page down", "One page down", MOVE,
           lazygit="pagedown,.,ctrl+d", vim="pagedown,ctrl+f,ctrl+d"),
    Action("first", "home,g", "view", "to_end(-1)", "first", "The first row", MOVE, lazygit="home,<", back="last"),
    Action("last", "end,G", "view", "to_end(1)", "last", "The last row", MOVE, lazygit="end,>"),
    Action("left", "left", "view", "sideways(-8)", "left", "Scroll to the left; along the timeline", MOVE, lazygit="H",
           vim="left,h", back="right"),
    Action("right", "right", "view", "sideways(8)", "right", "Scroll to the right if a row ends in ›", MOVE,
           lazygit="L", vim="right,l"),
    Action("zoom-in", "+", "timeline", "zoom_axis(1)", "zoom in", "Zoom into the timeline, around its mark", MOVE,
           lazygit="*", back="zoom-out"),
    Action("zoom-out", "-", "timeline", "zoom_axis(-1)", "zoom out", "Zoom out of the timeline", MOVE),
    Action("open", "enter", "view", "enter", "open", "Open or fold a ▸ row, else follow the row to the next pane", MOVE,
           priority=3, back="follow"),
    Action("follow", "f", "main", "follow", "follow", "Follow the row to the next pane, also a ▸ row", MOVE,
           lazygit="space,f", vim="ctrl+],f"),
    Action("go-back", "backspace", "main", "jump(-1)", "go back", "Go back to where you followed from", MOVE,
           priority=9, vim="ctrl+o,ctrl+t,backspace", back="go-forward"),
    Action("go-forward", "F", "main", "jump(1)", "go forward", "Go forward again", MOVE),
    Action("next-break", "b", "main", "next_break(1)", "next break", "Go to the next graph break", MOVE, priority=4,
           panes="source breaks graph", back="previous-break"),
    Action("previous-break", "B", "main", "next_break(-1)", "previous break", "Go to the previous graph break", MOVE),
    Action("next-kernel", "", "main", "next_chapter(1)", "next kernel", "Next kernel with a highlighted row", MOVE,
           vim="},)"),
    Action("previous-kernel", "", "main", "next_chapter(-1)", "previous kernel",
           "Previous kernel with a highlighted row", MOVE, vim="{,("),
    Action("next-view", "v", "main", "next_view(1)", "view", "Show the pane's next view, named in its title", PANES,
           priority=5, panes="graph guards code timing", lazygit="],v", back="previous-view"),
    Action("previous-view", "V", "main", "next_view(-1)", "previous view", "Show the pane's previous view", PANES,
           lazygit="[,V"),
    Action("next", "a", "main", "show_next", "advice", "Show what to do next, the greatest gain first", MOVE,
           priority=4, keywords="next recommend improve faster step gain try", lazygit="ctrl+n", vim="ctrl+n"),
    Action("compile-time", "", "main", "show_compile_time", "compile time", "Show where the compile time goes", MOVE,
           keywords="phases dynamo inductor aotautograd triton slow spans cache"),
    Action("as-code", "", "main", "code", "as code", "Show the graph as code, or as rows again", PANES),
    Action("compare", "=", "main", "compare", "compare",
           "Compare two kernels or cache entries: mark one, go to another", KERNELS, panes="code guards",
           keywords="kernels fused fusion apart differ"),
    Action("recompile-check", "R", "main", "recompile_check", "recompile check",
           "Check whether other inputs would recompile", FIX, panes="guards",
           keywords="batch shapes sizes guard dynamic", live=True, lazygit="r"),
    Action("fix", "h", "main", "fix", "fix", "Try and verify fixes for the graph break under the cursor", FIX,
           priority=5, panes="source breaks", keywords="repair remove edit instead rewrite gain faster", live=True,
           lazygit="a", vim="a", back="undo"),
    Action("row-guards", "i", "main", "row_guards", "guards",
           "Go to the guards that come from the line under the cursor", MOVE, keywords="conditions recompile row"),
    Action("machine-code", "P", "main", "machine_code", "PTX",
           "Show the PTX or other machine code of the line or the kernel under the cursor", KERNELS, priority=13,
           panes="source code", keywords="sass amdgcn assembly gpu target h100"),
    Action("target", "T", "app", "target", "target", "Choose the target to generate code for", KERNELS, priority=12,
           panes="code", keywords="gpu ptx cuda h100 triton device", live=True),
    Action("target-diff", "", "main", "target_diff", "two targets",
           "Compare the kernel under the cursor on two targets", KERNELS, keywords="gpu ptx registers",
           live=True, menu="K", question="How does this kernel differ on another GPU?"),
    Action("diff", "d", "app", "diff", "diff", "Diff the run in view with the base or the previous run", RUNS,
           priority=6, keywords="changed changes since last save compare", lazygit="W,d"),
    Action("base", "", "app", "base", "as base", "Use the run in view as the base of diffs, or stop using it", RUNS,
           keywords="baseline"),
    Action("search", "/", "reading", "search", "search", "Search in the rows", SEARCH, priority=4),
    Action("next-match", "n", "reading", "next_match(1)", "next match", "Go to the next match or highlighted row",
           SEARCH, back="previous-match"),
    Action("previous-match", "N", "reading", "next_match(-1)", "previous match",
           "Go to the previous match or highlighted row", SEARCH),
    Action("back", "escape", "reading", "back", "back", "Leave the search, the zoom, or this screen", SEARCH),
    Action("edit", "e", "reading", "edit", "edit", "Open $VISUAL or $EDITOR at the row's line", SEARCH, priority=7),
    Action("copy", "y", "reading", "copy", "copy", "Copy the row", SEARCH, priority=10, lazygit="y,ctrl+o",
           back="copy-all"),
    Action("copy-id", "", "app", "copy_id", "copy id", "Copy the id of the row, for tcexplore ask", SEARCH,
           keywords="stable identifier agent reference"),
    Action("copy-all", "Y", "reading", "copy_all", "copy all", "Copy all rows", SEARCH),
    Action("diff-next-part", "tab", "diff", "section(1)", "next part", "Go to the next part with differences", MOVE,
           priority=1, lazygit="tab,]"),
    Action("diff-previous-part", "shift+tab", "diff", "section(-1)", "previous part",
           "Go to the previous part with differences", MOVE, lazygit="shift+tab,["),
    Action("diff-earlier-base", "[", "diff", "other_base(-1)", "earlier base", "Diff with an earlier run", RUNS,
           pair=Pair("diff-later-base", "other base", 2), lazygit="{"),
    Action("diff-later-base", "]", "diff", "other_base(1)", "later base", "Diff with a later run", RUNS, lazygit="}"),
    Action("diff-back", "d,q", "diff", "leave", "back", "Back to the panes", APP, way_out="back to the panes",
           lazygit="W,d,q"),
    Action("answer-back", "=,q", "answer", "leave", "back", "Back to the panes", APP, way_out="closes"),
    Action("target-back", "T,q", "target", "leave", "back", "Back to the panes", APP, way_out="closes"),
    Action("target-diff-next-stage", "v", "target_diff", "next_stage(1)", "next stage",
           "Compare the kernel's next stage", MOVE, priority=1, lazygit="],v"),
    Action("target-diff-previous-stage", "V", "target_diff", "next_stage(-1)", "previous stage",
           "Compare the kernel's previous stage", MOVE, lazygit="[,V"),
    Action("target-diff-previous-target", "[", "target_diff", "other_target(-1)", "other target",
           "Compare with another target", KERNELS, priority=2, pair=Pair("target-diff-next-target", "other target", 2),
           lazygit="{"),
    Action("target-diff-next-target", "]", "target_diff", "other_target(1)", "other target",
           "Compare with another target", KERNELS, lazygit="}"),
    Action("target-diff-next-kernel", "tab", "target_diff", "next_kernel(1)", "next kernel", "Go to the next kernel",
           MOVE, priority=3),
    Action("target-diff-previous-kernel", "shift+tab", "target_diff", "next_kernel(-1)", "previous kernel",
           "Go to the previous kernel", MOVE),
    Action("target-diff-back", "K,q", "target_diff", "leave", "back", "Back to the panes", APP,
           way_out="back to the panes"),
    Action("study-stop", "x", "study", "stop_study", "stop", "Stop the study and keep its results", STUDY, priority=1),
    Action("study-again", "r", "study", "again", "again", "Restart the study with the current file", STUDY, priority=2,
           lazygit="R"),
    Action("study-zoom", "z", "study", "zoom", "zoom", "Show the study on the whole screen, or below the panes", PANES,
           priority=4, lazygit="+,_"),
    Action("study-back", "q", "study", "leave", "back", "Back to the panes", APP, way_out="back to the panes"),
    Action("modes-sort", "s", "modes", "sort", "sort", "Sort by the next column", STUDY, priority=3),
    Action("modes-environments", "E", "modes", "environments", "environments",
           "Compare environments, such as two versions of torch", STUDY, priority=5,
           keywords="python version upgrade nightly"),
    Action("environments-modes", "E", "environments", "modes", "modes", "Compare the modes instead", STUDY, priority=5),
    Action("bisect-write-reproducer", "w", "bisect", "write", "write reproducer",
           "Write a folder that reproduces the failure", FIX, priority=3),
    Action("fix-write", "w", "fix", "write", "write", "Write the verified fix to your file", FIX, priority=1),
    Action("fix-another-fix", "tab", "fix", "other", "another fix", "Try another fix for the same break", FIX,
           priority=3),
    Action("fix-undo", "u", "fix", "undo", "undo", "Undo the written fix in your file", FIX, priority=2, lazygit="z,u"),
    Action("fix-back", "h", "fix", "leave", "back", "Back to the panes", APP, lazygit="a", vim="a"),
    Action("studies-back", "q", "studies", "leave", "back", "Back to the panes", APP, way_out="closes"),
    Action("ranks-back", "o,q", "ranks", "leave", "back", "Back to the panes", APP, way_out="back to the panes"),
    Action("studies", "S", "app", "studies", "studies", "Choose a study: more runs that answer one question", STUDY,
           priority=7, panes="timing guards code", keywords="menu question compare", live=True),
    Action("modes", "", "app", "study('modes')", "modes", "Compare all modes and backends", STUDY,
           keywords="options backends config fastest best mode", live=True, menu="M",
           question="Which mode or backend is fastest for this model?"),
    Action("sweep", "", "app", "study('sweep')", "sweep", "Time one dimension of the inputs at several sizes", STUDY,
           keywords="batch sizes scaling compiling worth pays off faster", live=True, menu="S",
           question="From which batch size does compiling help?"),
    Action("recompiles", "", "app", "study('recompiles')", "recompiles",
           "Vary the inputs: recompiles, and how to avoid them", STUDY,
           keywords="batch dynamic shapes recompiling stop prevent", live=True, menu="W",
           question="Which inputs recompile, and what avoids it?"),
    Action("bisect", "", "app", "study('bisect')", "bisect",
           "Find the compiler stage that crashes or gives a wrong result", STUDY,
           keywords="wrong result accuracy crash blame minifier", live=True, menu="L",
           question="Which compiler stage is at fault?"),
    Action("numerics", "", "app", "study('numerics')", "numerics",
           "Find the first op that is wrong or differs from eager", STUDY,
           keywords="wrong result accuracy numerics ulp bitwise nan inf precision eager differs", live=True, menu="D",
           question="Which op is the first that is wrong, or differs from eager?"),
    Action("memory", "", "app", "study('memory')", "memory",
           "Explain the peak of memory, and measure what lowers it", STUDY,
           keywords="memory peak activations budget recompute checkpoint oom out of memory", live=True, menu="P",
           question="What is in use at the peak of memory, and what lowers it?"),
    Action("fusion", "", "app", "study('fusion')", "fusion",
           "Fuse what Inductor keeps apart, or keep apart what it fuses", STUDY,
           keywords="fuse force forbid what if kernels scheduler", live=True, menu="F",
           question="What would a call take if these kernels were fused, or apart?"),
    Action("counters", "", "app", "study('counters')", "counters",
           "Count what the GPU does in the kernel under the cursor, by line", STUDY,
           keywords="hardware counters nsight compute ncu stalls throughput occupancy profile kernel", live=True,
           menu="H", question="What does this kernel wait for on the GPU?", of_gpu=True),
    Action("artifacts", "", "app", "study('artifacts')", "artifacts",
           "Save compiled code and load it in a second process", STUDY, keywords="cache export ship deploy", menu="A",
           question="Does compiled code load in another process, and what does that save?"),
    Action("cold", "", "app", "study('cold')", "cold run", "Compile with empty caches, then with warm ones", STUDY,
           keywords="compile time cache startup", live=True, menu="C",
           question="How long does the first call take without caches?"),
    Action("earlier-save", "[", "app", "step(-1)", "earlier save", "Show the previous save, also of earlier starts",
           RUNS, pair=Pair("later-save", "history", 8), lazygit="{", back="later-save"),
    Action("later-save", "]", "app", "step(1)", "later save", "Show the next save", RUNS, lazygit="}"),
    Action("newest-save", "", "app", "newest", "newest save", "Follow the newest save again", RUNS, lazygit="$",
           vim="$"),
    Action("ranks", "o", "app", "ranks", "ranks", "Show the ranks of a trace, and the first difference between them",
           RUNS, of_trace=True),
    Action("calls", "", "app", "ask_calls", "calls", "Show the net gain over N calls", STUDY,
           keywords="break-even pays off compile time", live=True, menu="#",
           question="After how many calls does compiling pay off?"),
    Action("compile-arguments", "", "app", "compile_arguments", "arguments",
           "Compile with further arguments of torch.compile", RUNS,
           keywords="option config recompile_limit isolate_recompiles name dynamic_shapes shapes_spec options"),
    Action("run-again", "r", "app", "rerun", "run again", "Run the file again", RUNS, priority=11, live=True,
           lazygit="R", back="stop"),
    Action("stop", "x", "app", "stop_run", "stop", "Stop the current run", RUNS, priority=13, live=True),
    Action("undo", "u", "app", "undo", "undo", "Undo the last written fix", FIX, lazygit="z,u"),
    Action("theme", "", "app", "toggle_theme", "theme", "Switch between the light and the dark theme", APP),
    Action("help", "?", "app", "help", "help", "Help for this pane, and all keys", APP, priority=0, vim="?,f1"),
    Action("commands", ":,ctrl+p", "app", "command_palette", "commands",
           "All commands, views, targets and places, by name", APP, priority=3),
    Action("screenshot", "", "app", "export('svg')", "screenshot", "Save a screenshot of the screen as SVG", RUNS,
           keywords="export picture image"),
    Action("export-html", "", "app", "export('html')", "export HTML", "Save the run as one HTML page to share", RUNS,
           keywords="export report save share pull request attach page"),
    Action("export-text", "", "app", "export('txt')", "export text", "Save the report of the run as text", RUNS,
           keywords="export share"),
    Action("export-json", "", "app", "export('json')", "export JSON", "Save the run as JSON", RUNS,
           keywords="export report"),
    Action("suspend", "ctrl+z", "app", "suspend_process", "suspend", "Suspend (fg resumes)", APP),
    Action("quit", "q", "app", "quit", "quit", "Quit tcexplore", APP, priority=1, keywords="exit leave",
           back="suspend"),
)
# fmt: on

PRESETS: dict[str, dict[str, str]] = {
    "default": {},
    "lazygit": {action.name: action.lazygit for action in ACTIONS if action.lazygit is not None},
    "vim": {action.name: action.vim for action in ACTIONS if action.vim is not None},
}
"""Changes of the default keys, close to those of another program."""

_SCREENS: tuple[tuple[Scope, ...], ...] = (
    ("view", "timeline", "reading", "main", "app"),
    *(("view", "reading", scope) for scope in ("diff", "answer", "target", "target_diff", "ranks", "studies")),
    *(("view", "reading", "study", scope) for scope in ("modes", "environments", "bisect", "fix")),
)
"""Scopes whose keys must differ. On a screen over the panes, its own keys hide those of the app."""


def available(scopes: Collection[Scope]) -> tuple[Action, ...]:
    """Return the actions of a screen: those of its scopes, except app actions whose keys the screen overrides."""
    actions = [action for action in ACTIONS if action.scope in scopes]
    overridden = {key for action in actions if action.scope != "app" for key in action.keys}
    return tuple(action for action in actions if action.scope != "app" or overridden.isdisjoint(action.keys))


TO_PANES = tuple(action for action in ACTIONS if action.run.startswith("show_pane("))
"""The actions that go to a pane."""


def grouped(actions: Collection[Action]) -> list[tuple[Action, ...]]:
    """Return the actions that have keys, as a user learns them: all panes, and both directions of an action, as one."""
    by_name = {action.name: action for action in actions if action.keys}
    panes = tuple(action for action in by_name.values() if action in TO_PANES)
    others = {action.back for action in by_name.values()} | {action.name for action in panes[1:]}
    return [
        panes if action in panes else (action, *filter(None, [by_name.get(action.back)]))
        for action in by_name.values()
        if action.name not in others
    ]


# ---- names of keys

_NAMED = frozenset({
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "backspace", "tab", "enter",
    "escape", "space", *(f"f{n}" for n in range(1, 25)),
})  # fmt: skip
_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_TEXTUAL_NAMES = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Textual's names of characters that differ from Unicode's."""
_CHARACTERS = {
    _TEXTUAL_NAMES.get(name, name): character
    for character in map(chr, range(0x21, 0x7F)) if not character.isalnum()
    for name in [unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")]
}  # fmt: skip
"""Punctuation by Textual's names."""
_NAMES = {character: name for name, character in _CHARACTERS.items()}
_SHOWN = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "⏎", "escape": "esc", "backspace": "bksp",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "delete": "del", "insert": "ins",
}  # fmt: skip

UNBOUND = "unbound"
"""The name of no key: Textual's keymaps cannot remove a key otherwise."""


class AppearanceError(ValueError):
    """An entry of a keymap or of a theme is invalid. `name` is the entry, empty for the whole."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def normal_keys(name: str, keys: str) -> str:
    """Return keys with Textual's names. Raises `AppearanceError` for one that does not exist."""
    return ",".join(_normal_key(name, key.strip()) for key in keys.split(",")) if keys.strip() else ""


def _normal_key(name: str, key: str) -> str:
    *modifiers, base = key.lower().split("+") if len(key) > 1 else [key]
    if not base and modifiers:  # `ctrl++`
        modifiers, base = modifiers[:-1], "+"
    base = _NAMES.get(base, base)
    printable = len(base) == 1 and base.isprintable() and not base.isspace()
    if not (printable or base in _CHARACTERS or base in _NAMED) or any(each not in _MODIFIERS for each in modifiers):
        raise AppearanceError(
            name, f"there is no key {key!r}; write a character, or a name such as enter, ctrl+d or comma"
        )
    return "+".join((*modifiers, base))


def shown_key(key: str) -> str:
    """Return a key as footers, help and hints show it."""
    *modifiers, base = key.split("+")
    text = _SHOWN.get(base) or _CHARACTERS.get(base, base)
    return "".join({"ctrl": "^", "shift": "⇧"}.get(modifier, f"{modifier}+") for modifier in modifiers) + text


# ---- the keymap in use

DEFAULTS = {action.name: normal_keys(action.name, action.default_keys) for action in ACTIONS}
"""Textual's names of the default keys of each action, separated by commas."""

_current = dict(DEFAULTS)

_MENU_KEYS = {action.name: action.menu for action in ACTIONS if action.menu}


def use_keymap(changes: Mapping[str, str]) -> None:
    """Use the default keys with these changes from now on."""
    _current.clear()
    _current.update({**DEFAULTS, **changes})


def keys_of(action: str) -> tuple[str, ...]:
    """Return Textual's names of the keys of an action."""
    return tuple(filter(None, _current[action].split(",")))


def hint(action: str) -> str:
    """Return the first key of an action as shown: `S M` in the menu of studies, the command list's if it has none."""
    if keys := keys_of(action):
        return shown_key(keys[0])
    menu = _MENU_KEYS.get(action, "")
    keys = keys_of("studies" if menu else "commands") or keys_of("commands") or ("ctrl+p",)
    return f"{shown_key(keys[0])} {menu}".rstrip()


def make_keymap(preset: str, entries: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Return the changes of a preset with own entries on top, with Textual's names. Raises `AppearanceError`."""
    if preset not in PRESETS:
        raise AppearanceError("preset", f"there is no keymap {preset!r}; use one of {', '.join(PRESETS)}")
    from difflib import get_close_matches  # not imported before the first frame without a keymap

    changes = {name: normal_keys(name, keys) for name, keys in PRESETS[preset].items()}
    for name, keys in entries.items():
        if name not in DEFAULTS:
            nearest = get_close_matches(name, DEFAULTS, 1)
            question = f"did you mean {nearest[0]!r}?" if nearest else "`tcexplore config --keys` lists all actions"
            raise AppearanceError(name, f"there is no action {name!r}; {question}")
        changes[name] = normal_keys(name, keys if isinstance(keys, str) else ",".join(keys))
    for first, second, key in _conflicts({**DEFAULTS, **changes}):
        wrong = second if second in entries else first
        raise AppearanceError(
            wrong, f"{shown_key(key)} is the key of {first!r} and of {second!r}; give one another key"
        )
    return changes


def _conflicts(keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield two actions of a screen that have the same key, and the key."""
    for screen in _SCREENS:
        owners = dict[str, str]()
        for action in (action for scope in screen for action in ACTIONS if action.scope == scope):
            for key in filter(None, keys[action.name].split(",")):
                if owners.setdefault(key, action.name) != action.name:
                    yield owners[key], action.name, key
