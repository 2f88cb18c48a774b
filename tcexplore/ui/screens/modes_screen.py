"""The modes study on the screen: a key sorts it, and enter uses a row's mode for the model file."""

from __future__ import annotations

from typing import Any

from tcexplore.documents.configurations import describe_configuration, describe_variant, format_compile_call
from tcexplore.documents.document import Document
from tcexplore.events import Config
from tcexplore.studies.modes.modes_document import ORDERS, modes_document
from tcexplore.studies.modes.modes_study import planned_jobs
from tcexplore.studies.modes.modes_variants import ModesOptions
from tcexplore.studies.study import StudyState
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.study_screen import StudyScreen


class ModesScreen(StudyScreen):
    """Enter on a row runs the model file with its mode, adds a backend, or continues a stopped study."""

    BINDINGS = bindings("modes")
    SCOPES = (*StudyScreen.SCOPES, "modes")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._order = 0

    def build(self, state: StudyState[Any, Any], width: int) -> Document:
        return modes_document(state, ORDERS[self._order], width)

    def action_sort(self) -> None:
        self._order = (self._order + 1) % len(ORDERS)
        self._show()

    def on_row_entered(self, message: RowEntered) -> None:
        link = message.row.links[0] if message.row.links else None
        if link is None or self.state is None:
            return
        if link.kind == "run":
            self._use(self.state.results[int(link.name)].run.config)
        else:
            self._continue(self.state, link.name if link.kind == "backend" else "")

    def _use(self, config: Config) -> None:
        if describe_variant(config):
            self.app.notify(f"Write it in your file: {format_compile_call(config)}.", markup=False)
            return
        self._engine.configure(config.mode, config.backend, config.dynamic)
        self.app.notify(f"Your file now runs with {describe_configuration(config)}.", markup=False)
        self.leave()

    def _continue(self, state: StudyState[Any, Any], backend: str) -> None:
        """Run what is planned, and one more backend."""
        if backend and state.machine is not None:
            state.planned += planned_jobs(state.job, state.machine, ModesOptions(backends=(backend,)))
        if state.over:
            self.begin(state.options, resume=state)
        self._show()
