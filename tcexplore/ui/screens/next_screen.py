"""The trial of a next step on the screen: its result goes to the run in view, whose list it may reorder."""

from __future__ import annotations

from tcexplore.events import StepTried
from tcexplore.studies.next import STUDY
from tcexplore.ui.messages import StepsTried
from tcexplore.ui.screens.study_screen import StudyContext, StudyScreen


class NextScreen(StudyScreen):
    """Shows the list of steps while one of them is tried."""

    def __init__(self, context: StudyContext, options: object = None) -> None:
        super().__init__(STUDY, context, options)
        self._delivered: tuple[StepTried, ...] = ()
        """The results in the last message to the app."""

    def _deliver(self) -> None:
        tried = self.state.results[-1].run.steps_tried if self.state is not None and self.state.results else ()
        if self.state is not None and tried != self._delivered:
            self._delivered = tried
            self.app.post_message(StepsTried(tried, self.state.job))
