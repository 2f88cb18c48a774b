"""A compile with empty caches beside one with warm ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.cold.cold_plan import cold_and_warm
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask


class ColdScreen(StudyScreen[RunFigures]):
    """Two runs: the second finds what the first left in the caches."""

    BINDINGS = bindings("cold")
    SCOPES = (*StudyScreen.SCOPES, "cold")
    NAME = "cold"

    def going(self) -> Going[RunFigures]:
        def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[RunFigures, None]:
            return cold_and_warm(job, runs, say, EACH_TIMEOUT)

        return going

    def build(self, study: StudyTask[RunFigures], width: int) -> Document:
        from tcexplore.studies.cold.cold_document import cold

        return cold(study.found, over=study.over, width=width)
