"""Bytes written to an 80 x 24 terminal for one page down, against the same app with textual's default animation.

Run it: python -m tests.benchmarks.terminal_bytes
"""

from __future__ import annotations

import statistics
import sys

from textual.app import App

from tcexplore.session import Session
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.lines.row_view import RowView
from tests import fakes
from tests.terminal import Terminal

PAGES = 10
QUIET = 1.0
"""Seconds without a byte after which a page down is over: longer than textual's animation."""


class NoEngine:
    """Runs nothing: there is one large run from the start."""

    app: ExplorerApp

    async def start(self, _: object) -> None:
        """Show the run."""
        self.app.session = Session(runs=(fakes.large.snapshot(),))

    def rerun(self) -> None:
        """Nothing to run."""

    def stop_run(self) -> None:
        """Nothing to stop."""

    async def close(self) -> None:
        """Nothing to close."""


def show(*, animated: bool) -> None:
    """The app on a large run, in this terminal; `animated` pages and draws as textual does by default."""
    engine = NoEngine()
    app = engine.app = ExplorerApp(lambda: engine)
    if animated:
        app.animation_level = "full"
        app.driver_class = App.get_driver_class(app)
        RowView.action_page = lambda self, by: self.scroll_page_down()  # type: ignore[method-assign]  # noqa: ARG005
    app.run()


def page_down(mode: str) -> float:
    """Bytes of one page down in the code pane, the median."""
    with Terminal([sys.executable, "-m", "tests.benchmarks.terminal_bytes", mode]) as terminal:
        terminal.wait_for("forward", 30)
        terminal.type("5")
        terminal.wait_for("cpp_fused", 30)
        terminal.type(" ")
        terminal.read(QUIET)
        taken = []
        for _ in range(PAGES):
            terminal.type(" ")
            taken.append(terminal.read(QUIET))
        return statistics.median(taken)


def main() -> None:
    """Print both and the ratio."""
    still, animated = page_down("still"), page_down("animated")
    sys.stdout.write(
        f"page down at 80 x 24: {still:,.0f} bytes; with textual's animation {animated:,.0f}: "
        f"1/{animated / max(still, 1):.1f} of it\n"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        show(animated=sys.argv[1] == "animated")
    else:
        main()
