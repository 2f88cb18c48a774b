"""Bytes written to an 80 x 24 terminal for one page down, with and without Textual's default animation.

Run: python -m tests.benchmarks.terminal_bytes
"""

from __future__ import annotations

import statistics
import sys

from textual.app import App

from tcexplore.session import Session
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.engine import Deliver
from tcexplore.ui.row_view import RowView
from tests import fakes
from tests.terminal import Terminal
from tests.ui.app_under_test import FakeEngine

PAGES = 10
QUIET = 1.0
"""Seconds without a byte after which a page down is done: longer than Textual's animation."""


class LargeRunEngine(FakeEngine):
    """An engine with one large run from the start."""

    app: ExplorerApp

    async def start(self, _: Deliver) -> None:
        """Show the run."""
        self.app.session = Session(runs=(fakes.large.snapshot(),))


def show(*, animated: bool) -> None:
    """Run the app on a large run in this terminal; `animated` pages and draws as Textual does by default."""
    engine = LargeRunEngine()
    app = engine.app = ExplorerApp(lambda: engine)
    if animated:
        app.animation_level = "full"
        app.driver_class = App.get_driver_class(app)
        RowView.action_page = lambda self, by: self.scroll_page_down()  # type: ignore[method-assign]  # noqa: ARG005
    app.run()


def page_down(mode: str) -> float:
    """Return the median bytes of one page down in the code pane."""
    with Terminal([sys.executable, "-m", "tests.benchmarks.terminal_bytes", mode]) as terminal:
        terminal.wait_for("forward", 30)
        terminal.type("5")
        terminal.wait_for("cpp_fused", 30)
        terminal.type(" ")
        terminal.read(QUIET)
        counts = []
        for _ in range(PAGES):
            terminal.type(" ")
            counts.append(terminal.read(QUIET))
        return statistics.median(counts)


def main() -> None:
    """Print both and their ratio."""
    plain, animated = page_down("plain"), page_down("animated")
    sys.stdout.write(
        f"page down at 80 x 24: {plain:,.0f} bytes; with Textual's animation {animated:,.0f}: "
        f"1/{animated / max(plain, 1):.1f} of it\n"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        show(animated=sys.argv[1] == "animated")
    else:
        main()
