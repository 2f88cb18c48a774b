"""Page down in 50 000 lines of code, and opening 10 000 graph nodes: our line view against textual's own widgets.

Run it: python -m tests.benchmarks.page_down
"""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import Callable
from time import perf_counter

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static, TextArea, Tree

from tcexplore.ui.document import Row, Span
from tcexplore.ui.line_view import LineView
from tcexplore.ui.text_document import Text
from tcexplore.ui.theme import DARK

LINES, NODES, SIZE, PAGES = 50_000, 10_000, (120, 40), 15


class Stage(App[None]):
    """One widget on an empty screen."""

    def __init__(self, widget: Callable[[], Widget]) -> None:
        super().__init__()
        self._widget = widget
        self.animation_level = "none"
        self.register_theme(DARK)
        self.theme = DARK.name

    def compose(self) -> ComposeResult:
        yield self._widget()


def code_line(number: int) -> str:
    return f"        auto tmp{number} = decltype(tmp{number - 1})(1) / (decltype(tmp{number - 1})(1) + tmp{number - 2}.exp());"


class Code:
    """Generated code as a pane shows it: a gutter and a few spans a line."""

    title = "code"

    def __len__(self) -> int:
        return LINES

    def row(self, index: int) -> Row:
        text = code_line(index)
        return Row((Span(f"{index:6} ", "muted"), Span(text[:12], "keyword"), Span(text[12:40], ""), Span(text[40:], "number")))


class Graph(Code):
    """FX nodes as a pane shows them."""

    def __len__(self) -> int:
        return NODES

    def row(self, index: int) -> Row:
        return Row((Span("├─○ ", "rule"), Span(f"add_{index}", "node"), Span(f"  torch.add(mul_{index - 1}, 1.0)", "target"), Span(" f32[64, 1024]", "shape")))


def _lines(document: Code) -> Callable[[], Widget]:
    def build() -> Widget:
        view = LineView()
        view.call_later(view.show, document)
        return view

    return build


def _text_area() -> Widget:
    return TextArea("\n".join(map(code_line, range(LINES))), read_only=True, show_line_numbers=True)


def _tree() -> Widget:
    tree: Tree[None] = Tree("graph")
    for index in range(NODES):
        tree.root.add_leaf(f"add_{index}  torch.add(mul_{index - 1}, 1.0) f32{chr(0x27E8)}64, 1024{chr(0x27E9)}")
    tree.root.expand()
    return tree


async def page_down(widget: Callable[[], Widget], keys: int = PAGES) -> tuple[float, float]:
    """Seconds until the widget stands on the screen, and the median seconds from a key to the screen drawn anew."""
    app = Stage(widget)
    began = perf_counter()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        opened = perf_counter() - began
        app.screen.query("*").last().focus()
        await pilot.pause()
        gc.collect()
        return opened, statistics.median([await _key(pilot, "pagedown") for _ in range(keys)])


async def _key(pilot: Pilot[None], key: str) -> float:
    began = perf_counter()
    await pilot.press(key)
    return perf_counter() - began


async def main() -> None:
    floor_open, floor = await page_down(lambda: _focusable())
    ours_open, ours = await page_down(_lines(Code()))
    area_open, area = await page_down(_text_area, keys=5)
    graph_open, graph = await page_down(_lines(Graph()))
    tree_open, tree = await page_down(_tree)
    print(f"textual's own floor: a key {floor * 1e3:.1f} ms, opening {floor_open * 1e3:.0f} ms; figures below are above it")
    _say("page down, 50 000 lines", ours - floor, "TextArea", area - floor)
    _say("page down, 10 000 nodes", graph - floor, "Tree", tree - floor)
    _say("open 50 000 lines", ours_open - floor_open, "TextArea", area_open - floor_open)
    _say("open 10 000 nodes", graph_open - floor_open, "Tree", tree_open - floor_open)


class _Focusable(Static, can_focus=True):
    pass


def _focusable() -> Widget:
    return _Focusable("nothing")


def _say(what: str, ours: float, name: str, theirs: float) -> None:
    print(f"{what:26} {ours * 1e3:8.1f} ms   {name:8} {theirs * 1e3:8.1f} ms   {theirs / max(ours, 1e-4):6.1f} times faster")


if __name__ == "__main__":
    asyncio.run(main())
