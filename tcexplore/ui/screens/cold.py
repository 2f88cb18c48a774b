"""A compile with empty caches beside one with warm ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tcexplore.events import Job
from tcexplore.session.cell import Cell
from tcexplore.study.cold import cold_and_warm
from tcexplore.study.job import EACH_TIMEOUT
from tcexplore.study.runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.lines.document import Document
from tcexplore.ui.screens.study import StudyScreen
from tcexplore.ui.study import Study


class ColdScreen(StudyScreen[Cell]):
    """Two runs: the second finds what the first left in the caches."""

    BINDINGS = bindings("cold")
    SCOPES = (*StudyScreen.SCOPES, "cold")
    NAME = "cold"

    def going(self) -> Going[Cell]:
        def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[Cell, None]:
            return cold_and_warm(job, runs, say, EACH_TIMEOUT)

        return going

    def build(self, study: Study[Cell], width: int) -> Document:
        from tcexplore.ui.documents.studies.cold import cold

        return cold(study.found, over=study.over, width=width)
