"""One dimension of the inputs at several sizes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tcexplore.documents.document import Document
from tcexplore.documents.document_parts import message
from tcexplore.events import Job
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.studies.sweep.sweep_plan import plan, steps
from tcexplore.studies.sweep.sweep_result import Sweep, SweepStep
from tcexplore.ui.actions import bindings
from tcexplore.ui.screens.prompt_screen import Field, PromptScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask
from tcexplore.ui.typed_numbers import parse_dimension, parse_sizes, suggest_sizes

NOTE = (
    "Every input that is as large in this dimension as the first gets the new size. All sizes are also called in turn, "
    "in this order, to see which are compiled again."
)


class SweepScreen(StudyScreen[SweepStep]):
    """Asks for dimension and sizes, then fills a row for each size."""

    BINDINGS = bindings("sweep")
    SCOPES = (*StudyScreen.SCOPES, "sweep")
    NAME = "sweep"

    def open(self) -> None:
        asked = _of(self.study) if self.study is not None else None
        dim, over = asked or (0, suggest_sizes(self.own.entry if self.own else None))
        fields = (
            Field("Which dimension, counted from 0", str(dim), parse_dimension),
            Field("Which sizes, in the order of the calls", ", ".join(map(str, over)), parse_sizes),
        )
        self.app.push_screen(PromptScreen("One dimension at several sizes", fields, NOTE), self._answered)

    def _answered(self, answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            self._begin(parse_dimension(answers[0]), parse_sizes(answers[1]))
        elif self.study is None:
            self.leave()

    def _begin(self, dim: int, over: tuple[int, ...]) -> None:
        self._plan = plan(self.job, dim, over)
        self.begin().planned += [job for _, _, job in self._plan]

    def going(self) -> Going[SweepStep]:
        planned = self._plan

        async def going(_: Job, runs: Runs, say: Say) -> AsyncGenerator[SweepStep, None]:
            for number, (form, size, job) in enumerate(planned, 1):
                say(f"{number} of {len(planned)}: {form}, {f'size {size}' if size else 'all sizes in turn'}")
                async for step in steps(((form, size, job),), runs, EACH_TIMEOUT):
                    yield step

        return going

    def build(self, study: StudyTask[SweepStep], width: int) -> Document:
        from tcexplore.studies.sweep.sweep_document import sweep

        asked = _of(study)
        if asked is None:
            return message("Waiting for a worker.")
        under_way = None if study.over or study.run is None else study.run.config
        return sweep(Sweep(*asked, tuple(study.found)), under_way, width)


def _of(study: StudyTask[SweepStep]) -> tuple[int, tuple[int, ...]] | None:
    """Dimension and sizes of a sweep: those of its first run, which calls all sizes in turn."""
    config = study.planned[0].config if study.planned else None
    return (config.dim, config.sizes) if config is not None else None
