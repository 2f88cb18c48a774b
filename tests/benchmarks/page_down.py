"""Page down in 50,000 lines of code, and opening a graph of 10,000 nodes: `RowView` and Textual's own widgets.

Both show the same text on an otherwise empty screen. Results are CPU time of the whole program (other load affects it
little), minus the CPU time that Textual takes for the same key on an empty widget.

Run: python -m tests.benchmarks.page_down
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
from tcexplore.ui.row_view import RowView
from tcexplore.ui.themes import DARK_THEME
from tests import fakes

LINES, NODES, SIZE = 50_000, 10_000, (120, 40)


class Cost(NamedTuple):
    """Seconds of CPU time until the widget is on the screen, and for a page down (the median)."""

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


class EmptyWidget(Static, can_focus=True):
    """A widget that shows nothing, to measure the cost of Textual itself."""


async def cost(build: Callable[[], Widget], keys: int) -> Cost:
    """Measure a widget."""
    app = OneWidgetApp(build)
    async with app.run_test(size=SIZE) as pilot:
        start = process_time()
        await app.recompose()
        await pilot.pause()
        opening = process_time() - start
        app.screen.children[0].focus()
        await pilot.press("pagedown")
        gc.collect()
        times = []
        for _ in range(keys):
            start = process_time()
            await pilot.press("pagedown")
            times.append(process_time() - start)
        return Cost(opening, statistics.median(times))


def row_view(build: Callable[[], Document]) -> Callable[[], Widget]:
    """Return a row view of a document."""

    def view() -> Widget:
        widget = RowView()
        widget.call_later(lambda: widget.show(build()))
        return widget

    return view


def text_area(document: Document) -> Callable[[], Widget]:
    """Return Textual's editor with the same text."""
    text = "\n".join(document.row(index).text for index in range(len(document)))
    return lambda: TextArea(text, read_only=True, show_line_numbers=True)


def tree(document: Document) -> Callable[[], Widget]:
    """Return Textual's tree with a leaf for each row."""
    texts = [document.row(index).text.replace("[", "\\[") for index in range(len(document))]

    def build() -> Widget:
        widget: Tree[None] = Tree("graph")
        for text in texts:
            widget.root.add_leaf(text)
        widget.root.expand()
        return widget

    return build


def opened_graph(snapshot: Snapshot) -> Document:
    """Return the graph pane's document with every fold open."""
    toggled: frozenset[str] = frozenset()
    document = graph_document(snapshot, toggled, SIZE[0])
    while len(document) < NODES:
        folds = {document.row(index).fold for index in range(len(document)) if "▸" in document.row(index).text}
        toggled |= {fold for fold in folds if fold}
        document = graph_document(snapshot, toggled, SIZE[0])
    return document


async def main() -> None:
    """Print each cost, and the ratio."""
    snapshot = fakes.large.snapshot(NODES, LINES)
    lines, nodes = kernels_document(snapshot, frozenset(), SIZE[0]), opened_graph(snapshot)
    floor = await cost(lambda: EmptyWidget("nothing"), 20)
    sys.stdout.write(f"Textual itself: {floor.key * 1e3:.1f} ms per key, subtracted below\n")
    views = await cost(row_view(lambda: lines), 20), await cost(row_view(lambda: nodes), 20)
    textual_costs = await cost(text_area(lines), 5), await cost(tree(nodes), 20)
    for name, rows, view, other in zip(("TextArea", "Tree"), (lines, nodes), views, textual_costs, strict=True):
        _print(f"page down in {len(rows)} rows", view.key - floor.key, name, other.key - floor.key)
        _print(f"open {len(rows)} rows", view.opening - floor.opening, name, other.opening - floor.opening)


def _print(label: str, view: float, name: str, other: float) -> None:
    view = max(view, 1e-4)
    sys.stdout.write(f"{label:26}{view * 1e3:9.1f} ms   {name:9}{other * 1e3:9.1f} ms{other / view:9.1f} × faster\n")


if __name__ == "__main__":
    asyncio.run(main())
