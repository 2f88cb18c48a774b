"""What torch can save of the compile: artifacts made in one worker, and loaded in another."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.session import Snapshot
from tcexplore.studies.artifacts.artifacts_plan import save_and_load
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask


class ShipScreen(StudyScreen[Snapshot]):
    """Two runs on empty caches: the second is given what the first saved."""

    BINDINGS = bindings("artifacts")
    SCOPES = (*StudyScreen.SCOPES, "artifacts")
    NAME = "ship"

    def going(self) -> Going[Snapshot]:
        def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[Snapshot, None]:
            return save_and_load(job, runs, say, EACH_TIMEOUT)

        return going

    def build(self, study: StudyTask[Snapshot], width: int) -> Document:
        from tcexplore.studies.artifacts.artifacts_document import shipped

        return shipped(study.found, over=study.over, width=width)
