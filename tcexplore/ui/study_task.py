"""A study beside the app: many runs in workers of their own, results as they come, and never in the way of a key.

What to do for a new one:

1. Write how it goes, without textual, as a `Going` in `tcexplore/study/`: an async generator
   `going(job, runs, say)` that makes runs with `await runs.run(some_job, seconds)` (never raises for a run that fails:
   the outcome's snapshot says so), says in words what is under way, and yields each result when it has it. The command
   line can use the same one (`cli/studying.py`).
2. Derive a screen from `StudyScreen` (`ui/screens/study.py`): `going()` gives it, `build(study, width)` is a pure
   document of `study.found`, the results so far. Push it with `app.push_screen(MyScreen(engine))`.

The rest is done here and there: the runs go to a study queue of the engine, so its workers are ready at once and
end with the app, whatever ends it; the timing of the file's own run pauses meanwhile, for each would disturb the other;
`x` and leaving the screen stop the study; what breaks in `going` becomes `study.trouble`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic

from tcexplore.events import Job, Standby
from tcexplore.events.commands import PauseTiming
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Going, Result, Runs
from tcexplore.ui.engine import Engine


class StudyTask(Generic[Result]):
    """One study, from its beginning until it is done or stopped.

    `found` has the results in their order, `planned` the jobs that they are of, where `going` knows them beforehand;
    `machine` is the worker's greeting, `said` what is under way in words, `run` the run under way; `trouble` is set
    where the study itself broke. `changed` is called when there is a new result, another run begins or the study has
    ended, `moved` when the run under way is in another phase.
    """

    def __init__(
        self, engine: Engine, job: Job, going: Going[Result], changed: Callable[[], None], moved: Callable[[], None]
    ) -> None:
        self.job = job
        self.found: list[Result] = []
        self.planned: list[Job] = []
        self.machine: Standby | None = None
        self.said = "waiting for a worker"
        self.run: Snapshot | None = None
        self.trouble = ""
        self.stopped = False
        self._engine = engine
        self._changed = changed
        self._moved = moved
        self._task = asyncio.create_task(self._follow(going), name="study")

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self._task.done() or self.stopped

    def take_over(self, before: StudyTask[Result]) -> None:
        """Go on from what another one found; to be called before the first result of this one."""
        self.found, self.planned, self.machine = list(before.found), before.planned, before.machine

    def stop(self) -> None:
        """End the run under way; what was found stays. Returns at once."""
        if not self.over:
            self.stopped = True
            self._task.cancel()
            self._changed()

    async def ended(self) -> None:
        """Until the study is over and its last run is gone."""
        await asyncio.wait({self._task})

    async def _follow(self, going: Going[Result]) -> None:
        self._engine.send(PauseTiming(paused=True))
        try:
            await self._go(going)
        except Exception as error:  # whatever it is, it must not take the app with it
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            self._engine.send(PauseTiming(paused=False))
            self.run = None
        # Once more when the task itself is done: until then it is not over.
        asyncio.get_running_loop().call_soon(self._changed)

    async def _go(self, going: Going[Result]) -> None:
        async with Runs(self._engine.study_queue, self._progress) as runs:
            results = going(self.job, runs, self._say)
            try:
                async for result in results:
                    self.found.append(result)
                    self.machine = await runs.machine(0)
                    self._changed()
            finally:
                # So that what it has to put away is put away now, and not when it is collected.
                if isinstance(results, AsyncGenerator):
                    await results.aclose()

    def _say(self, text: str) -> None:
        self.said = text
        self._changed()

    def _progress(self, run: Snapshot) -> None:
        before, self.run = self.run, run
        if before is None or before.run != run.run:
            self._changed()
        elif (before.phase, before.phase_graph) != (run.phase, run.phase_graph):
            self._moved()
