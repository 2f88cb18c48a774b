"""Opening the screen of a study."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tcexplore.session import Snapshot
from tcexplore.studies.study import Study, load_study
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import LastStudies, StudyContext, StudyScreen


def open_study(
    app: App[Any], name: str, engine: Engine, own: Snapshot, last: LastStudies, options: object = None
) -> str:
    """Open a study of the model file, whose newest run is `own`; return why it can't be opened, or an empty string.

    An open study is replaced, since two would disturb each other. The key of an open study closes it.
    """
    screen = app.screen
    if isinstance(screen, StudyScreen) and screen.study.name == name:
        screen.leave()
        return ""
    study = load_study(name)
    if engine.job is None or (own.is_script and not study.studies_scripts):
        return "This file is a script that calls torch.compile itself: this study needs a model and its inputs."
    if own.entry is None and own.status == "running":
        return "The model and its inputs are not known yet. Try again in a moment."
    new = _make_screen(study, StudyContext(engine, engine.job, own, last), options)
    if isinstance(screen, StudyScreen):
        app.switch_screen(new)
    else:
        app.push_screen(new)
    return ""


def _make_screen(study: Study[Any, Any], context: StudyContext, options: object) -> StudyScreen:
    """Return the screen of a study: most have no keys beyond those of all studies."""
    if study.name == "modes":
        from tcexplore.ui.screens.modes_screen import EnvironmentsScreen, ModesScreen

        several = options is None and len(context.engine.pythons) > 1
        return EnvironmentsScreen(context) if several else ModesScreen(context, options)
    if study.name == "bisect":
        from tcexplore.ui.screens.bisect_screen import BisectScreen

        return BisectScreen(study, context, options)
    return StudyScreen(study, context, options)
