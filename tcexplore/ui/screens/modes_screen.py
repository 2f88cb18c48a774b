"""Every mode, backend and kind of shapes side by side."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from tcexplore.documents.configurations import describe_configuration
from tcexplore.documents.document import Document
from tcexplore.events import Config, Job
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.modes.modes_plan import UNKNOWN, cells, plan
from tcexplore.studies.scratch import scratch
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask


class MatrixScreen(StudyScreen[RunFigures]):
    """A row for each cell from the start; enter on one runs the file that way from now on."""

    BINDINGS = bindings("modes")
    SCOPES = (*StudyScreen.SCOPES, "modes")
    NAME = "matrix"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._order = 0

    def going(self) -> Going[RunFigures]:
        async def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[RunFigures, None]:
            study = self.study
            assert study is not None
            if not study.planned:
                study.planned = list(plan(job, await runs.machine(EACH_TIMEOUT) or UNKNOWN))
            number = len(study.found)
            async with scratch(runs, "compare") as folder:
                # The plan may grow meanwhile.
                while number < len(study.planned):
                    planned = study.planned[number]
                    number += 1
                    say(f"{number} of {len(study.planned)}: {describe_configuration(planned.config)}")
                    async for cell in cells([planned], runs, EACH_TIMEOUT, folder):
                        yield cell

        return going

    def build(self, study: StudyTask[RunFigures], width: int) -> Document:
        from tcexplore.studies.modes.modes_document import ORDERS, matrix

        under_way = None if study.over or study.run is None else study.run.config
        waiting = [job.config for job in study.planned[len(study.found) :]]
        planned = {job.config.backend for job in study.planned}
        others = [name for name in (study.machine.backends if study.machine else ()) if name not in planned]
        return matrix(study.found, waiting, under_way, others, ORDERS[self._order], width)

    # ---- what it does on keys

    def action_sort(self) -> None:
        from tcexplore.studies.modes.modes_document import ORDERS

        self._order = (self._order + 1) % len(ORDERS)
        self._show()

    def on_row_entered(self, message: RowEntered) -> None:
        link = message.row.links[0] if message.row.links else None
        if link is None or self.study is None:
            return
        if link.kind == "cell":
            self._apply(self.study.found[int(link.name)].run.config)
        else:
            self._go_on(link.name if link.kind == "backend" else "")

    def _apply(self, config: Config) -> None:
        self._engine.configure(config.mode, config.backend, config.dynamic)
        self.app.notify(f"Your file runs with {describe_configuration(config)} from now on.", markup=False)
        self.leave()

    def _go_on(self, backend: str) -> None:
        """Have the cells of one more backend, and those that are still to come."""
        before = self.study
        if before is None:
            return
        if backend and before.machine is not None:
            before.planned += plan(before.job, before.machine, backends=(backend,))
        if before.over:
            self.begin().take_over(before)
        self._show()
