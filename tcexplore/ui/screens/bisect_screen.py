"""The ladder of layers: which one crashes, or computes something else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from tcexplore.documents.document import Document
from tcexplore.documents.locations import display_path
from tcexplore.events import Job, Standby
from tcexplore.studies.bisect.bisect_plan import climb, ladder
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStage, BisectStep, culprit
from tcexplore.studies.study_job import EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.screens.prompt_screen import Field, PromptScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask

NOTE = "Your file and what it imports from beside it, a script that shows the fault, and torch's own scripts go there."


class BlameScreen(StudyScreen[BisectStep]):
    """Lights up rung by rung; the first that fails names the layer."""

    BINDINGS = bindings("bisect")
    SCOPES = (*StudyScreen.SCOPES, "bisect")
    NAME = "ladder"

    def going(self) -> Going[BisectStep]:
        async def going(job: Job, runs: Runs, say: Say) -> AsyncGenerator[BisectStep, None]:
            rungs = self._rungs(await runs.machine(EACH_TIMEOUT))
            say(rungs[1].layer)
            async for step in climb(job, rungs, runs, EACH_TIMEOUT):
                above = rungs.index(step.rung) + 1
                say(rungs[above].layer if above < len(rungs) else "done")
                yield step

        return going

    def _rungs(self, machine: Standby | None) -> tuple[BisectStage, ...]:
        return ladder(machine.backends if machine else (), self._job.config.mode)

    def build(self, study: StudyTask[BisectStep], width: int) -> Document:
        from tcexplore.studies.bisect.bisect_document import blame

        return blame(study.found, self._rungs(study.machine), over=study.over, width=width)

    # ---- the reproducer

    def action_write(self) -> None:
        guilty = culprit(tuple(self.study.found)) if self.study is not None else None
        if guilty is None or guilty.rung is EAGER:
            self.say("There is nothing to reproduce: no layer of the compiler is to blame.")
            return
        from tcexplore.studies.bisect.reproducer import free

        field = Field("Into which folder", self._suggested(), free)
        self.app.push_screen(PromptScreen("A reproducer that runs without tcexplore", (field,), NOTE), self._write)

    def _suggested(self) -> str:
        """A folder beside the file that is not there yet."""
        wanted = Path(self._job.file).with_suffix("")
        names = (wanted.with_name(f"{wanted.name}-repro{number}") for number in ("", *range(2, 1000)))
        return display_path(str(next(path for path in names if not path.exists())))

    def _write(self, answers: tuple[str, ...] | None) -> None:
        guilty = culprit(tuple(self.study.found)) if self.study is not None else None
        if answers is None or guilty is None or self.study is None:
            return
        from tcexplore.studies.bisect.reproducer import free, write

        try:
            folder = free(answers[0])
            write(folder, self.study.job, guilty, self.study.machine)
        except (OSError, ValueError) as error:
            self.say(f"Not written: {error}", "warning")
        else:
            self.say(f"Written. To see the fault: python {folder}/repro.py")
