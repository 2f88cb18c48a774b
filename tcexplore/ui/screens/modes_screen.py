"""The modes study on the screen: a key sorts it, and enter uses a row's mode for the model file."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any

from tcexplore.documents.configurations import describe_configuration, describe_variant, format_compile_call
from tcexplore.documents.document import Document
from tcexplore.environments import PythonNotUsableError, candidates
from tcexplore.events import Config
from tcexplore.model_python import ModelPython
from tcexplore.studies.environments import ENVIRONMENTS, EnvironmentsOptions, split_paths
from tcexplore.studies.mode_variants import ModesOptions
from tcexplore.studies.modes import ORDERS, STUDY, modes_document, planned_jobs
from tcexplore.studies.study import Prompt, PromptField, StudyState
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.prompt_screen import PromptScreen
from tcexplore.ui.screens.study_screen import StudyContext, StudyScreen

QUESTION = "Interpreters, or folders of environments, separated by spaces"
NOTE = "Your file runs in each, and nothing is installed into them."


class ModesScreen(StudyScreen):
    """Enter on a row runs the model file with its mode, adds a backend, or continues a stopped study."""

    BINDINGS = bindings("modes")
    SCOPES = (*StudyScreen.SCOPES, "modes")

    def __init__(self, context: StudyContext, options: object = None) -> None:
        super().__init__(STUDY, context, options)
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

    def action_environments(self) -> None:
        self.app.switch_screen(EnvironmentsScreen(self._study_context._replace(job=self.job)))

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


class EnvironmentsScreen(StudyScreen):
    """The study of environments: it begins at once if the app has several, and otherwise asks for them."""

    BINDINGS = bindings("environments")
    SCOPES = (*StudyScreen.SCOPES, "environments")

    def __init__(self, context: StudyContext) -> None:
        super().__init__(ENVIRONMENTS, context)

    def open(self) -> None:
        pythons = self._engine.pythons
        if len(pythons) > 1:
            self.begin(EnvironmentsOptions(pythons))
        else:
            self._ask(shlex.join([pythons[0].executable, *self._others(pythons[0])]))

    def _others(self, python: ModelPython) -> list[str]:
        """Return the environments near the model file besides the one that runs it."""
        known = python.prefix or sys.prefix
        return list(dict.fromkeys(folder for folder, _ in candidates(self.job.file) if folder != known))

    def _ask(self, value: str, problem: str = "") -> None:
        field = PromptField(QUESTION, value, split_paths)
        self.app.push_screen(
            PromptScreen(Prompt("Compare which environments?", (field,), problem or NOTE)), self._answered
        )

    def _answered(self, answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            self.run_worker(self._compare_named(answers[0]), group="environments", exit_on_error=False)
        elif self.state is None:
            self.leave()

    async def _compare_named(self, answer: str) -> None:
        """Start the interpreters, each of which may take seconds to answer, then compare them."""
        try:
            options = await asyncio.to_thread(ENVIRONMENTS.options_from, (answer,))
        except PythonNotUsableError as error:
            self._ask(answer, f"{error} {error.hint}")
            return
        if len(options.pythons) < 2:
            self._ask(answer, "These are the same environment.")
        else:
            self.begin(options)

    def action_modes(self) -> None:
        self.app.switch_screen(ModesScreen(self._study_context._replace(job=self.job)))
