"""What if the inputs varied: the recompiles that this makes, and what spares them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.studies.recompiles.recompiles_plan import trials
from tcexplore.studies.recompiles.recompiles_result import Trial
from tcexplore.studies.recompiles.recompiles_study_text import specs, suggested
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.screens.prompt_screen import Field, PromptScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask

NOTE = (
    "x.0=1..64 are sizes of a dimension, lr=0.1,0.01 values; an argument goes by name or by position. "
    "Several, with blanks between, are combined. Nothing: the file's own calls."
)


class StormScreen(StudyScreen[Trial]):
    """Asks what to vary, shows the recompiles as they come, then each change that might spare them."""

    BINDINGS = bindings("recompiles")
    SCOPES = (*StudyScreen.SCOPES, "recompiles")
    NAME = "storm"

    def open(self) -> None:
        found = self.study.found if self.study is not None else []
        own, vary = (found[0].run, found[0].run.config.vary) if found else (self.own, self.job.config.vary)
        first = suggested(own.entry if own is not None else None, vary)
        asked = PromptScreen("What if the inputs varied?", [Field("What to vary", first, specs)], NOTE)
        self.app.push_screen(asked, self._answered)

    def _answered(self, answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            self._vary = specs(answers[0])
            self.begin()
        elif self.study is None:
            self.leave()

    def going(self) -> Going[Trial]:
        vary = self._vary

        def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[Trial, None]:
            return trials(replace(job, config=replace(job.config, vary=vary)), runs, say, EACH_TIMEOUT)

        return going

    def build(self, study: StudyTask[Trial], width: int) -> Document:
        from tcexplore.studies.recompiles.recompiles_document import storm

        return storm(study.found, None if study.over else study.run, self._toggled, width)

    def _moved(self) -> None:
        """While the first run goes on, its calls are drawn as they come."""
        super()._moved()
        study = self.study
        if study is not None and study.run is not None and not study.found and self.is_mounted:
            self._view.show(guarded(lambda: self.build(study, self._view.text_width)))
