"""What torch can save of the compile: artifacts made in one worker, and loaded in another."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tcexplore.events import Job
from tcexplore.session import Snapshot
from tcexplore.study.job import EACH_TIMEOUT
from tcexplore.study.runs import Going, Runs, Say
from tcexplore.study.ship import save_and_load
from tcexplore.ui.actions import bindings
from tcexplore.ui.lines.document import Document
from tcexplore.ui.screens.study import StudyScreen
from tcexplore.ui.study import Study


class ShipScreen(StudyScreen[Snapshot]):
    """Two runs on empty caches: the second is given what the first saved."""

    BINDINGS = bindings("ship")
    SCOPES = (*StudyScreen.SCOPES, "ship")
    NAME = "ship"

    def going(self) -> Going[Snapshot]:
        def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[Snapshot, None]:
            return save_and_load(job, runs, say, EACH_TIMEOUT)

        return going

    def build(self, study: Study[Snapshot], width: int) -> Document:
        from tcexplore.ui.documents.studies.shipped import shipped

        return shipped(study.found, over=study.over, width=width)
