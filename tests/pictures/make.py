"""`python -m tests.pictures.make`: the README's screenshot of the app on `samples/mlp.py`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tcexplore.events import Config
from tcexplore.session import Snapshot
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.file_engine import FileEngine

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "samples" / "mlp.py"
SIZE = (172, 50)
PAIRS = 40
"""Interleaved pairs to wait for, so that timing is stable."""

TIMEOUT_S = 180.0


def is_ready(snapshot: Snapshot | None) -> bool:
    """Return whether the screen has everything for the picture."""
    if snapshot is not None and snapshot.failure is not None:
        raise SystemExit(f"{snapshot.failure.type}: {snapshot.failure.message}")
    return snapshot is not None and snapshot.timing is not None and snapshot.timing.pairs >= PAIRS


async def take() -> str:
    """Return the screen of the app as SVG after its first run."""
    engine = FileEngine(str(SAMPLE), Config())
    app = ExplorerApp(lambda: engine)
    async with app.run_test(size=SIZE) as pilot, asyncio.timeout(TIMEOUT_S):
        while not is_ready(app.session.newest):
            await pilot.pause(0.25)
        await pilot.press("b")
        await pilot.pause()
        return app.export_screenshot(title="tcexplore samples/mlp.py")


def tidy(svg: str) -> str:
    """Remove web fonts, varying names, and trailing spaces."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> None:
    """Write the picture next to this file."""
    (HERE / "mlp.svg").write_text(tidy(asyncio.run(take())))


if __name__ == "__main__":
    main()
