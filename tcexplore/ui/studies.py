"""The studies that have a key, and what the last one of each found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from tcexplore.events import Job
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study import StudyScreen
from tcexplore.ui.study import Study

AnyScreen = StudyScreen[Any]


class Studies:
    """Opens a study's screen; what it found last time is shown again as long as file and configuration are the same."""

    def __init__(self) -> None:
        self._last: dict[str, Study[Any]] = {}

    def open(self, app: App[Any], name: str, engine: Engine, job: Job) -> None:
        """Open the study with this name on a job; one that is open gives way, for two would disturb each other."""
        screen = SCREENS[name](engine, job, self._last)
        if isinstance(app.screen, StudyScreen):
            app.switch_screen(screen)
        else:
            app.push_screen(screen)


def _matrix(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.matrix import MatrixScreen

    return MatrixScreen(*given)


SCREENS: dict[str, Callable[..., AnyScreen]] = {"matrix": _matrix}
"""Imported when they are asked for: the first frame does without them."""
