"""The studies that have a key, and what the last one of each found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from tcexplore.session import Snapshot
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask

AnyScreen = StudyScreen[Any]


class Studies:
    """Opens a study's screen; what it found last time is shown again as long as file and configuration are the same."""

    def __init__(self) -> None:
        self._last: dict[str, StudyTask[Any]] = {}

    def open(self, app: App[Any], name: str, engine: Engine, own: Snapshot) -> str:
        """Open the study with this name on what the engine runs, `own` being that run; one that is open gives way, for
        two would disturb each other. Returns why it cannot be opened, empty where it can."""
        if engine.job is None or (own.entry is not None and own.entry.kind == "script"):
            return "This file compiles for itself: there is no model and inputs to run in another way."
        if own.entry is None and own.status == "running":
            return "What the file compiles, and with which inputs, is not known yet: ask again in a moment."
        screen = SCREENS[name](engine, engine.job, self._last, own)
        if isinstance(app.screen, StudyScreen):
            app.switch_screen(screen)
        else:
            app.push_screen(screen)
        return ""


def _matrix(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.modes_screen import MatrixScreen

    return MatrixScreen(*given)


def _sweep(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.sweep_screen import SweepScreen

    return SweepScreen(*given)


def _blame(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.bisect_screen import BlameScreen

    return BlameScreen(*given)


def _cold(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.cold_screen import ColdScreen

    return ColdScreen(*given)


def _storm(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.recompiles_screen import StormScreen

    return StormScreen(*given)


def _ship(*given: Any) -> AnyScreen:
    from tcexplore.ui.screens.artifacts_screen import ShipScreen

    return ShipScreen(*given)


SCREENS: dict[str, Callable[..., AnyScreen]] = {
    "matrix": _matrix, "sweep": _sweep, "storm": _storm, "blame": _blame, "cold": _cold, "ship": _ship,
}  # fmt: skip
"""Imported when they are asked for: the first frame does without them."""
