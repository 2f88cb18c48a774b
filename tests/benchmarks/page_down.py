"""Page down in 50 000 lines of code, and opening a graph of 10 000 nodes: ours against textual's own widgets.

Both sides show the same text on an otherwise empty screen. Figures are the processor time of the whole program (a busy
machine does not change them much), less what textual itself takes for the same key on a widget that shows nothing.

Run it: python -m tests.benchmarks.page_down
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Static, TextArea, Tree

from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.document import Document
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.session import Snapshot
from tcexplore.ui.lines.row_view import RowView
from tcexplore.ui.terminal.themes import DARK_THEME
from tests import fakes

LINES, NODES, SIZE = 50_000, 10_000, (120, 40)


class Cost(NamedTuple):
    """Seconds of processor time: until the widget stands on the screen, and for a page down (the median)."""

    opening: float
    key: float


class OneWidgetApp(App[None]):
    """One widget on an empty screen."""

    def __init__(self, build: Callable[[], Widget]) -> None:
        super().__init__()
        self._build = build
        self.animation_level = "none"
        self.register_theme(DARK_THEME)
        self.theme = DARK_THEME.name

    def compose(self) -> ComposeResult:
        yield self._build()


class Nothing(Static, can_focus=True):
    """Takes keys and shows nothing: textual's own floor."""


async def cost(build: Callable[[], Widget], keys: int) -> Cost:
    """What a widget costs."""
    app = OneWidgetApp(build)
    async with app.run_test(size=SIZE) as pilot:
        began = process_time()
        await app.recompose()
        await pilot.pause()
        opening = process_time() - began
        app.screen.children[0].focus()
        await pilot.press("pagedown")
        gc.collect()
        taken = []
        for _ in range(keys):
            began = process_time()
            await pilot.press("pagedown")
            taken.append(process_time() - began)
        return Cost(opening, statistics.median(taken))


def ours(build: Callable[[], Document]) -> Callable[[], Widget]:
    """A line view on a document."""

    def view() -> Widget:
        made = RowView()
        made.call_later(lambda: made.show(build()))
        return made

    return view


def text_area(document: Document) -> Callable[[], Widget]:
    """Textual's editor on the same text."""
    text = "\n".join(document.row(index).text for index in range(len(document)))
    return lambda: TextArea(text, read_only=True, show_line_numbers=True)


def tree(document: Document) -> Callable[[], Widget]:
    """Textual's tree with a leaf for each row."""
    texts = [document.row(index).text.replace("[", "\\[") for index in range(len(document))]

    def grown() -> Widget:
        made: Tree[None] = Tree("graph")
        for text in texts:
            made.root.add_leaf(text)
        made.root.expand()
        return made

    return grown


def opened_graph(snapshot: Snapshot) -> Document:
    """The graph pane's document with every fold open."""
    toggled: frozenset[str] = frozenset()
    document = graph_document(snapshot, toggled, SIZE[0])
    while len(document) < NODES:
        folds = {document.row(index).fold for index in range(len(document)) if "▸" in document.row(index).text}
        toggled |= {fold for fold in folds if fold}
        document = graph_document(snapshot, toggled, SIZE[0])
    return document


async def main() -> None:
    """Print what each costs and how many times ours is faster."""
    snapshot = fakes.large.snapshot(NODES, LINES)
    lines, nodes = kernels_document(snapshot, frozenset(), SIZE[0]), opened_graph(snapshot)
    floor = await cost(lambda: Nothing("nothing"), 20)
    sys.stdout.write(f"textual's own floor: {floor.key * 1e3:.1f} ms a key; the figures below are above it\n")
    views = await cost(ours(lambda: lines), 20), await cost(ours(lambda: nodes), 20)
    theirs = await cost(text_area(lines), 5), await cost(tree(nodes), 20)
    for name, rows, view, their in zip(("TextArea", "Tree"), (lines, nodes), views, theirs, strict=True):
        _say(f"page down in {len(rows)} rows", view.key - floor.key, name, their.key - floor.key)
        _say(f"open {len(rows)} rows", view.opening - floor.opening, name, their.opening - floor.opening)


def _say(what: str, view: float, name: str, their: float) -> None:
    view = max(view, 1e-4)
    sys.stdout.write(f"{what:26}{view * 1e3:9.1f} ms   {name:9}{their * 1e3:9.1f} ms{their / view:9.1f} times faster\n")


if __name__ == "__main__":
    asyncio.run(main())
