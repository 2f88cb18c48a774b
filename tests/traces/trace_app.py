"""The app on a trace, awaited and read as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tcexplore.ui.app import ExplorerApp

PATIENCE_S = 60


async def until(app: ExplorerApp, pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    """Let the app run until a condition holds; fail with its screen if that takes too long."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await pilot.pause()
    except TimeoutError:
        pytest.fail(text_of(app))


def text_of(app: ExplorerApp) -> str:
    """Return the terminal's text, line by line, without trailing blanks."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
