"""The bisect study on the screen: with a key that writes a reproducer."""

from __future__ import annotations

from pathlib import Path

from tcexplore.documents.locations import display_path
from tcexplore.files import NotWrittenError
from tcexplore.studies.bisect import EAGER, BisectStep, first_failure
from tcexplore.studies.reproducer import unused_folder, write_reproducer
from tcexplore.studies.study import Prompt, PromptField
from tcexplore.ui.actions import bindings
from tcexplore.ui.screens.prompt_screen import PromptScreen
from tcexplore.ui.screens.study_screen import StudyScreen

NOTE = "It gets your file and its local imports, a script that shows the failure, and torch's own scripts."


class BisectScreen(StudyScreen):
    """Writes a reproducer of the first failing stage."""

    BINDINGS = bindings("bisect")
    SCOPES = (*StudyScreen.SCOPES, "bisect")

    def action_write(self) -> None:
        if self._failing is None:
            self.say("There is nothing to reproduce: no compiler stage fails.")
            return
        field = PromptField("Folder", self._suggested_folder(), unused_folder)
        prompt = Prompt("A reproducer that runs without tcexplore", (field,), NOTE)
        self.app.push_screen(PromptScreen(prompt), self._write)

    @property
    def _failing(self) -> BisectStep | None:
        step = first_failure(self.state.results) if self.state is not None else None
        return None if step is None or step.stage is EAGER else step

    def _suggested_folder(self) -> str:
        """Return a folder next to the file that does not exist yet."""
        wanted = Path(self._job.file).with_suffix("")
        names = (wanted.with_name(f"{wanted.name}-repro{number}") for number in ("", *range(2, 1000)))
        return display_path(str(next(path for path in names if not path.exists())))

    def _write(self, answers: tuple[str, ...] | None) -> None:
        step = self._failing
        if answers is None or step is None or self.state is None:
            return
        try:
            folder = unused_folder(answers[0])
            write_reproducer(folder, self.state.job, step.run, step.failure, self.state.machine)
        except (NotWrittenError, ValueError) as error:
            self.say(f"Not written: {error}", "warning")
        else:
            self.say(f"Written. To see the failure: python {folder}/repro.py")
