"""The terminal app, from nothing to its exit status."""

from __future__ import annotations

import asyncio

from tcexplore.events import Config
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.file_engine import FileEngine


def run_app(file: str, config: Config, argv: tuple[str, ...] = (), name: str | None = None) -> int:
    """Show the app until the person leaves it; returns the exit status (128 + n after signal n).

    When this returns the terminal is as it was and no worker is left.
    """
    return asyncio.run(_run(FileEngine(file, config, argv, name)))


async def _run(engine: FileEngine) -> int:
    app = ExplorerApp(engine)
    try:
        await app.run_async()
    finally:
        await engine.close()
    return app.return_code or 0
