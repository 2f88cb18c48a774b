"""A study that runs while the app stays responsive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tcexplore.events.commands import PauseTiming
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.studies.study import Study, StudyState, run_study
from tcexplore.studies.study_runs import Emit, Runner, Runs
from tcexplore.ui.engine import Engine


class StudyTask:
    """One study, from its start until it is done or stopped.

    Its runs share the app's workers. Timing of the model file pauses meanwhile, since each would disturb the other.
    """

    def __init__(
        self,
        engine: Engine,
        study: Study[Any, Any],
        state: StudyState[Any, Any],
        changed: Callable[[], None],
        moved: Callable[[], None],
    ) -> None:
        """Start the study.

        `changed` is called on a new result or run and at the end, `moved` when the current run enters another phase.
        """
        self.state = state
        self._engine = engine
        self._changed = changed
        self._moved = moved
        self._task = asyncio.create_task(self._follow(study), name="study")

    def follow(self, changed: Callable[[], None], moved: Callable[[], None]) -> None:
        """Call these from now on, for a screen that shows a study begun before."""
        self._changed, self._moved = changed, moved

    def stop(self) -> None:
        """End the current run and keep the results; return at once."""
        if not self.state.over:
            self.state.stopped = self.state.over = True
            self._task.cancel()
            self._changed()

    async def ended(self) -> None:
        """Wait until the study is over and its last run has ended."""
        await asyncio.wait({self._task})

    async def _follow(self, study: Study[Any, Any]) -> None:
        self._engine.send(PauseTiming(paused=True))
        try:
            async with Runs(self._runner(study.pythons(self.state.options)), self._progress) as runs:
                await run_study(study, self.state, runs, self._announce, lambda _: self._changed())
        except Exception as error:  # noqa: BLE001  an error in a study must not end the app
            self.state.error = f"{type(error).__name__}: {error}"
        finally:
            self._engine.send(PauseTiming(paused=False))
            self.state.run, self.state.over = None, True
        self._changed()

    def _runner(self, pythons: Sequence[ModelPython]) -> Callable[[Emit], Runner]:
        """Return the factory of the queue for the runs: on the app's workers, or in other environments."""
        if not pythons:
            return self._engine.study_queue
        from tcexplore.supervisor.environment_queue import EnvironmentQueue

        return partial(EnvironmentQueue, {python.executable: python for python in pythons})

    def _announce(self, step: str) -> None:
        self.state.step = step
        self._changed()

    def _progress(self, run: Snapshot) -> None:
        before, self.state.run = self.state.run, run
        if before is None or before.run != run.run:
            self._changed()
        elif (before.phase, before.phase_graph) != (run.phase, run.phase_graph):
            self._moved()
