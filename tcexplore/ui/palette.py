"""The command palette: every action, view and target by name and keyword, and places of the run by their text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tcexplore.documents.labels import labels
from tcexplore.events import clean
from tcexplore.keymap import available, hint
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, break_link, guard_link, kernel_link, node_link
from tcexplore.session.stable_ids import is_id, links_with_id
from tcexplore.ui.pane_table import PANES
from tcexplore.ui.screens.reading_screen import ReadingScreen

if TYPE_CHECKING:
    from tcexplore.documents.code.target_choices import TargetChoice
    from tcexplore.ui.run_actions import RunActions

PLACES = 6
"""Places of one kind that a search lists."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Modes of `torch.compile`."""

BACKENDS = ("inductor", "aot_eager", "eager")
"""Backends of `torch.compile`."""

OPTION_KEYWORDS = {"mode": "cudagraphs autotune", "backend": "eager aot", "dynamic": "shapes batch"}

SAMPLES = Path(__file__).parents[2] / "samples"
"""The folder of the samples, in a checkout."""

MOST_FILES = 50
"""Files of one folder that the palette lists."""

MOST_SUMMARY = 200
"""Bytes of a file that are read for its summary."""

FILLERS = frozenset(
    "a an and are can do does for how i if in is it its my not of on per the to what which why would".split()  # noqa: SIM905
)
"""Words of a question that a search ignores."""

EXACT = 3.0
"""Score of the line or kernel whose number is searched: it comes before all commands."""

_WORD = re.compile(r"\w+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")


class Command(NamedTuple):
    """One entry of the palette."""

    title: str
    note: str
    keywords: str
    run: Callable[[], object]
    priority: int
    """The place in the list without a search text; lower comes first."""


class CommandProvider(Provider):
    """Finds commands by title and keywords, and places of the run in view by their text."""

    @property
    def explorer(self) -> RunActions:
        app: RunActions = self.app  # type: ignore[assignment]
        return app

    async def discover(self) -> Hits:
        used = self.explorer.used_commands
        for command in sorted(self.commands(), key=lambda each: (-used[each.title], each.priority)):
            yield DiscoveryHit(command.title, self._counted(command), help=command.note)

    async def search(self, query: str) -> Hits:
        """Yield commands and places that match the words, used commands first; if none does, match single letters."""
        matcher, used, any_hit = self.matcher(query), self.explorer.used_commands, False
        for command in self.commands():
            if score := score_words(query, command.title, command.keywords):
                any_hit = True
                score += min(used[command.title], 9) / 100
                yield Hit(score, matcher.highlight(command.title), self._counted(command), help=command.note)
        run = self.explorer.session.view(lambda snapshot: snapshot.compiled)
        for score, title, note, link in find_places(run, query) if run is not None else ():
            any_hit = True
            yield Hit(score, matcher.highlight(title), partial(self._go_to, link), help=note)
        for command in () if any_hit else self.commands():
            if score := matcher.match(command.title):
                yield Hit(score, matcher.highlight(command.title), self._counted(command), help=command.note)

    def _counted(self, command: Command) -> Callable[[], object]:
        def run() -> object:
            self.explorer.used_commands[command.title] += 1
            return command.run()

        return run

    def _go_to(self, link: Link) -> None:
        self._leave_screens()
        self.explorer.main.go_to(link)

    def _leave_screens(self) -> None:
        while isinstance(self.app.screen, ReadingScreen) and self.app.screen is not self.explorer.main:
            self.app.pop_screen()

    def commands(self) -> Iterator[Command]:
        """Yield the commands of the screen below the palette."""
        screen = self.screen
        scopes = screen.SCOPES if isinstance(screen, ReadingScreen) else ("app",)
        for action in available(scopes):
            if action.scope != "view" and action.run != "command_palette":
                target = self.app if action.scope == "app" else screen
                note = f"{action.label}, key {hint(action.name)}" if action.keys else action.label
                priority = 50 if action.priority is None or action.name in ("help", "quit") else action.priority
                yield Command(
                    action.help, note, action.keywords, partial(self.app.run_action, action.run, target), priority
                )
        yield from self._views()
        yield from self._targets()
        yield from self._options()
        yield from self._names()
        yield from self._files()
        for theme in self.app.available_themes.values():
            note = "the terminal's own 16 colors" if theme.ansi else "dark" if theme.dark else "light"
            yield Command(f"Theme {theme.name}", note, "colors dark light", partial(self._use_theme, theme.name), 90)

    def _options(self) -> Iterator[Command]:
        """Yield the arguments of torch.compile, with the modes and backends of this torch."""
        standby = self.explorer.standby
        values: dict[str, tuple[object, ...]] = {
            "mode": (standby and standby.modes) or MODES, "backend": (standby and standby.backends) or BACKENDS,
            "dynamic": (None, True, False),
        }  # fmt: skip
        for name, choices in values.items():
            for value in choices:
                choose = partial(self.explorer.configure, **{name: value})
                keywords = f"option config argument {OPTION_KEYWORDS[name]}"
                yield Command(f"Compile with {name}={value}", "option of torch.compile", keywords, choose, 80)

    def _names(self) -> Iterator[Command]:
        """Yield what else of the model file can be compiled."""
        newest, engine = self.explorer.session.newest, self.explorer.engine
        if newest is None or newest.trace or engine is None or engine.job is None:
            return
        for name in compilable_names(newest.source):
            if newest.entry is None or name != newest.entry.name:
                yield Command(f"Compile {clean(name)}", "of this file, with its inputs", "entry function model other",
                              partial(self.explorer.compile_name, name), 76)  # fmt: skip
        if engine.job.name is not None:
            yield Command("Compile the file's own entry", f"instead of {clean(engine.job.name)}", "entry model script",
                          partial(self.explorer.compile_name, None), 76)  # fmt: skip

    def _files(self) -> Iterator[Command]:
        """Yield the samples, and the other Python files in the folder of the model file."""
        newest = self.explorer.session.newest
        if newest is None or newest.trace:
            return
        folder = Path(newest.file).parent
        for kind, parent in {"": folder, "sample ": SAMPLES}.items():
            for path in sorted(parent.glob("*.py"))[:MOST_FILES] if kind or parent != SAMPLES else ():
                if str(path) != newest.file:
                    yield Command(f"Open {kind}{clean(path.name)}", clean(summary(path)), "sample example file model",
                                  partial(self._open_file, str(path)), 75)  # fmt: skip

    def _open_file(self, path: str) -> None:
        self._leave_screens()
        self.explorer.open_file(path)

    def _use_theme(self, name: str) -> None:
        self.app.theme = name

    def _views(self) -> Iterator[Command]:
        for pane in PANES:
            for place, view in enumerate(pane.views):
                show = partial(self._show_view, pane.id, view.name)
                times = f", then {place} × {hint('next-view')}" if place else ""
                note = f"{pane.title.lower()} pane, key {hint(f'{pane.id}-pane')}{times}"
                yield Command(f"View {view.name} in {pane.title}", note, view.keywords, show, 60)

    def _show_view(self, pane: str, view: str) -> None:
        self._leave_screens()
        self.explorer.main.show_view(pane, view)

    def _targets(self) -> Iterator[Command]:
        from tcexplore.documents.code.target_choices import list_choices

        for choice in list_choices(self.explorer.target_files):
            name = choice.target.properties.name if choice.target is not None else "this machine"
            retarget = partial(self.explorer.show_target, choice)
            yield Command(f"Generate code for {choice.key}", name, "target gpu ptx triton cuda rocm", retarget, 70)
            if choice.target is not None:
                stages = "PTX and SASS" if choice.target.backend == "cuda" else "AMDGCN"
                show = partial(self._show_stages, choice)
                yield Command(f"{stages} for {choice.key}", name, "machine code assembly gpu target stages", show, 71)

    def _show_stages(self, choice: TargetChoice) -> None:
        self._leave_screens()
        self.explorer.show_stages(choice)


@lru_cache(maxsize=1)  # each letter of a search lists all commands
def compilable_names(source: str) -> tuple[str, ...]:
    """Return the functions with parameters that the top level of a file with `inputs` defines."""
    try:
        top = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return ()
    defined = {node.name: node for node in top if isinstance(node, ast.FunctionDef)}
    assigned = {target.id for node in top if isinstance(node, ast.Assign) for target in node.targets
                if isinstance(target, ast.Name)}  # fmt: skip
    if "inputs" not in {*defined, *assigned}:
        return ()
    others = (name for name, node in defined.items() if node.args.args and not name.startswith("_"))
    return tuple(name for name in others if name not in ("inputs", "loss"))


def score_words(query: str, title: str, keywords: str) -> float:
    """Return how well a command matches the words of a query, in any order; 0 if it lacks one of them.

    A word matches the start of a word of the command. A match in the title counts more than one in the keywords.
    """
    wanted = _WORD.findall(query.lower())
    words = [_ENDING.sub("", word) for word in wanted if word not in FILLERS and not word.isdigit()] or wanted
    in_title, in_keywords = (f" {' '.join(_WORD.findall(text.lower()))}" for text in (title, keywords))
    if not words or any(f" {word}" not in in_title + in_keywords for word in words):
        return 0.0
    return 1.0 + sum(f" {word}" in in_title for word in words) / len(words)


def summary(path: Path) -> str:
    """Return the first line of a file's docstring; its folder if there is none."""
    with suppress(OSError, ValueError):
        with path.open(encoding="utf-8") as opened:
            head = opened.read(MOST_SUMMARY)
        if head.startswith('"""') and (first := head[3:].partition("\n")[0].removesuffix('"""')):
            return first
    return str(path.parent)


def find_places(run: Snapshot, query: str) -> Iterator[tuple[float, str, str, Link]]:
    """Yield score, title, note and link of the part with an id, or of lines, kernels, breaks, ops and guards that
    contain the text."""
    wanted = query.lower().removeprefix("line ").strip()
    if not wanted:
        return
    if is_id(wanted):
        yield from ((EXACT, f"id {wanted}", link.kind, link) for link in links_with_id(run, wanted))
        return
    kinds = (_lines(run, wanted), _kernels(run), _breaks(run), _ops(run), _guards(run))
    for kind in kinds:
        matching = (each for each in kind if wanted in each[0].lower())
        for title, note, link in islice(matching, PLACES):
            exact = title.lower().startswith((f"{wanted}:", f"line {wanted}:"))
            yield EXACT if exact else 0.4, title, note, link


Place = tuple[str, str, Link]


def _lines(run: Snapshot, wanted: str) -> Iterator[Place]:
    """Yield the lines of the model file, the one with the wanted number first."""
    lines = [(f"line {n}: {text.strip()}", "source", Link("line", run.file, str(n)))
             for n, text in enumerate(run.source.split("\n"), 1) if text.strip()]  # fmt: skip
    return iter(sorted(lines, key=lambda line: not line[0].startswith(f"line {wanted}:")))


def _kernels(run: Snapshot) -> Iterator[Place]:
    known = labels(run)
    for kernel in run.code.kernels:
        link = kernel_link(kernel)
        yield f"{known.kernel[link].name}: {kernel.name}", f"code, graph {kernel.graph} {kernel.phase}", link


def _breaks(run: Snapshot) -> Iterator[Place]:
    for graph_break in run.breaks:
        yield f"break {graph_break.kind}: {graph_break.code.strip()}", "breaks", break_link(graph_break)


def _ops(run: Snapshot) -> Iterator[Place]:
    for graph in run.graphs:
        for node in graph.all_nodes:
            if node.op != "output":
                yield f"op {node.target} {node.name}", f"graph {graph.graph}", node_link(graph.graph, node.name)


def _guards(run: Snapshot) -> Iterator[Place]:
    for installed in run.guards:
        for guard in installed.guards:
            if not guard.structural:
                yield (
                    f"guard {guard.source} {guard.kind}",
                    f"graph {installed.graph}",
                    guard_link(installed.graph, guard),
                )
