"""`python -m tests.pictures.make`: the README's screenshot and recording of the app on `samples/mlp.py`.

Both are made of one real session in a copy of the sample: a first run, its graph break, the verified fix, and the run
after the fix is written. They need a machine without other load, or the figures are undecided.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from tcexplore.events import Config
from tcexplore.session import Snapshot
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.file_engine import FileEngine
from tests.pictures.recording import Frame, recording

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "samples" / "mlp.py"
SIZE = (160, 46)
TIMEOUT_S = 110.0

DECIDED = ("faster", "slower", "no difference")
DECIDED_PAIRS = 100
"""Interleaved pairs after which a verdict rarely changes."""

SETTLED_PAIRS = 1500
"""Interleaved pairs after which a timing is shown even if it is undecided."""


def is_timed(snapshot: Snapshot | None) -> bool:
    """Return whether the timing of a run is worth a picture."""
    if snapshot is not None and snapshot.failure is not None:
        raise SystemExit(f"{snapshot.failure.type}: {snapshot.failure.message}")
    timing = snapshot.timing if snapshot is not None else None
    least = DECIDED_PAIRS if timing is not None and timing.verdict in DECIDED else SETTLED_PAIRS
    return timing is not None and timing.pairs >= least


class Session:
    """One session of the app, from which pictures are taken."""

    def __init__(self, app: ExplorerApp, pilot: Pilot[int]) -> None:
        self._app, self._pilot = app, pilot
        self.frames: list[Frame] = []

    async def until(self, condition: Callable[[Snapshot], bool]) -> None:
        """Wait for a condition on the newest run."""
        while self._app.session.newest is None or not condition(self._app.session.newest):
            await self._pilot.pause(0.1)
        print(f"  {self._app.session.newest.run}: {self._app.session.newest.phase}", file=sys.stderr)  # noqa: T201

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self._pilot.pause(0.3)

    async def take(self, caption: str) -> None:
        """Add the screen to the recording; the first one is the screenshot."""
        self._app.clear_notifications()
        await self._pilot.pause()
        self.frames.append(Frame(caption, self._app.export_screenshot(title="tcexplore samples/mlp.py")))
        (HERE / "mlp.svg").write_text(tidy(self.frames[0].svg))
        (HERE / "mlp_recording.svg").write_text(recording(self.frames))


async def record() -> None:
    """Write both pictures next to this file."""
    engine = FileEngine("samples/mlp.py", Config())
    app = ExplorerApp(lambda: engine)
    try:
        async with app.run_test(size=SIZE, notifications=True) as pilot, asyncio.timeout(TIMEOUT_S):
            app.theme = "tcexplore-dark"  # in true color, whatever terminal this runs in
            session = Session(app, pilot)
            await session.until(lambda run: is_timed(run) and any(fix.state == "verified" for fix in run.fixes))
            await session.press("b")
            await session.until(is_timed)
            await session.take("b: the graph break, and all that is linked to its line")
            await session.press("h")
            await session.take("h: the fix, verified in a separate process")
            await session.press("w")
            await session.press("h")
            await session.until(lambda run: run.run > 1 and run.complete)
            await session.until(is_timed)
            await session.take("w: written. One graph, fewer kernels, faster")
            await session.press("d")
            await session.take("d: what changed since the run before")
    finally:
        await engine.close()


def tidy(svg: str) -> str:
    """Remove web fonts, varying names, and trailing spaces."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> None:
    """Make the pictures in a copy of the sample, which is changed on the way."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/samples")
        shutil.copy(SAMPLE, f"{folder}/samples/mlp.py")
        os.chdir(folder)
        asyncio.run(record())
        os.chdir(HERE)


if __name__ == "__main__":
    main()
