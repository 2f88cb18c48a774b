"""A study that runs while the app stays responsive, over the panes: its progress and its results so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical

from tcexplore.documents.document import Document
from tcexplore.events import Event, Job
from tcexplore.events.commands import PauseTiming
from tcexplore.keymap import hint
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.studies.registry import StudyName
from tcexplore.studies.runs import Emit, Runner, Runs
from tcexplore.studies.study import Study, StudyState, on_captured_call, run_study, run_timeout, study_job
from tcexplore.studies.study_text import study_status, study_title
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.engine import Engine
from tcexplore.ui.messages import RowEntered, StudyMeasured
from tcexplore.ui.pane_grid import arrange
from tcexplore.ui.row_line import RowLine
from tcexplore.ui.row_view import guarded
from tcexplore.ui.screens.reading_screen import OverlayScreen

CLOCK_S = 1.0
"""Seconds between two updates of how long a step has taken."""


class StudyTask:
    """One study, from its start until it is done or stopped: it goes on when its screen is closed.

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
        self.study = study
        self.state = state
        self._engine = engine
        self._changed = changed
        self._moved = moved
        self._task = asyncio.create_task(self._follow(), name="study")

    @property
    def status(self) -> str:
        """How far the study is, or how it ended and its answer."""
        answer = self.study.answer(self.state) if self.state.over else ""
        return ": ".join(filter(None, (study_status(self.state), answer)))

    @property
    def waits_for_code(self) -> bool:
        """Whether it times its runs on the app's workers, where timing waits for code that the file's run generates."""
        return self.study.timed and not self.study.pythons(self.state.options)

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

    async def _follow(self) -> None:
        study = self.study
        self._engine.send(PauseTiming(paused=True))
        try:
            async with Runs(self._runner(study.pythons(self.state.options)), self._note_run) as runs:
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
        from tcexplore.supervisor.supervisor import EnvironmentQueue

        return partial(EnvironmentQueue, {python.executable: python for python in pythons})

    def _announce(self, step: str) -> None:
        self.state.step, self.state.step_began = step, monotonic()
        self._changed()

    def _note_run(self, run: Snapshot) -> None:
        before, self.state.run = self.state.run, run
        if before is None or before.run != run.run:
            self._changed()
        elif (before.phase, before.phase_graph) != (run.phase, run.phase_graph):
            self._moved()


class Studies:
    """The last study of each kind. One may be under way, with its screen open or closed."""

    def __init__(self, behind: Callable[[StudyTask], None]) -> None:
        """`behind` is called on news of a study whose screen is closed."""
        self.behind = behind
        self._tasks: dict[str, StudyTask] = {}
        """By title, followed by the options if they are not the usual ones."""

    def begin(self, key: str, task: StudyTask) -> None:
        """Keep a study that has just begun; end the one under way, since two would disturb each other."""
        self.stop()
        self._tasks.pop(key, None)  # the newest is the last one
        self._tasks[key] = task

    def last(self, key: str, job: Job) -> StudyTask | None:
        """Return the last study of a kind: the one under way, or one of the same program that has results."""
        task = self._tasks.get(key)
        if task is None or not task.state.over:
            return task
        return task if task.state.results and _same_program(task.state.job, job) else None

    def newest(self) -> dict[StudyName, StudyTask]:
        """Return the newest study of each name."""
        return {task.study.name: task for task in self._tasks.values()}

    @property
    def under_way(self) -> StudyTask | None:
        return next((task for task in self._tasks.values() if not task.state.over), None)

    @property
    def ended_by_another(self) -> StudyTask | None:
        """The study under way if it has results, which another one would leave incomplete."""
        task = self.under_way
        return task if task is not None and task.state.results else None

    def stop(self) -> None:
        """End the study under way, if there is one; its results are kept."""
        if (task := self.under_way) is not None:
            task.stop()

    def clear(self) -> None:
        """Forget all studies, for another file."""
        self.stop()
        self._tasks.clear()


class StudyContext(NamedTuple):
    """What a study begins with."""

    engine: Engine
    job: Job
    own: Snapshot | None
    """The model file's own run."""
    studies: Studies


class StudyScreen(OverlayScreen):
    """Starts a study when it opens, or shows the last one again.

    A study goes on when its screen is closed. One that is over is shown again if the model file and its configuration
    have not changed.
    """

    BINDINGS = bindings("study")
    SCOPES = (*OverlayScreen.SCOPES, "study")
    BEGINS_ZOOMED = False
    """Whether it takes the whole screen at first, also where there is room for the panes above it."""

    def __init__(self, study: Study[Any, Any], context: StudyContext, options: object = None) -> None:
        """Make the screen; `options` are those of the study, None for its usual ones."""
        super().__init__()
        self.study = study
        self.state: StudyState[Any, Any] | None = None
        self._facts: tuple[Event, ...] = ()
        """Those of the last message to the app."""
        self.study_task: StudyTask | None = None
        self._end_asked: StudyTask | None = None
        """The study of which the user was told that this one ends it."""
        self._asked: Callable[[], None] | None = None
        """Begins what the user asked for then."""
        self._study_context = context
        self._options = options
        self._key = study.title if options is None else f"{study.title} {options}"
        self._engine = context.engine
        self._job = study_job(context.job)
        self._toggled: frozenset[str] = frozenset()
        self._zoomed = self.BEGINS_ZOOMED
        self._title = RowLine(partial(study_title, study.title, self._job, None, "", self._job.run), id="title")
        self._footer = RowLine(footer(self.SCOPES, without=self.without_effect), id="footer")

    @property
    def without_effect(self) -> Collection[str]:
        """Return the actions that would do nothing now."""
        return ()

    def build(self, state: StudyState[Any, Any], width: int) -> Document:
        """Return the document to show."""
        state.toggled = self._toggled
        return self.study.document(state, width)

    @property
    def page(self) -> tuple[str, str]:
        return self.study.name, self.study.title.capitalize()

    def compose(self) -> ComposeResult:
        with Vertical(id="study"):
            yield self._title
            yield self._view
            yield self._footer

    def on_mount(self) -> None:
        self.set_interval(CLOCK_S, self._tick)
        last = self._study_context.studies.last(self._key, self._job)
        if last is not None:
            self.resume(last)
        else:
            self.open()

    def on_unmount(self) -> None:
        if self.study_task is not None:
            self.close_study(self.study_task)

    def close_study(self, task: StudyTask) -> None:
        """Let the study go on."""
        if not task.state.over:
            behind = partial(self._study_context.studies.behind, task)
            task.follow(partial(self._changed_behind, task), behind)
            behind()

    def _changed_behind(self, task: StudyTask) -> None:
        self._deliver()
        self._study_context.studies.behind(task)

    def resume(self, task: StudyTask) -> None:
        """Show a study that has begun before."""
        self.study_task, self.state, self._job = task, task.state, task.state.job
        task.follow(self._show, self._moved)
        self._show()

    def on_resize(self) -> None:
        self._place()

    def _place(self) -> None:
        """Take the lower third of a terminal that shows all panes, or else all of it."""
        below = not self._zoomed and arrange(self.app.size, zoomed=False) == "all"
        self.set_class(below, "-below")

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._place()
        self.call_after_refresh(self._show)

    @property
    def job(self) -> Job:
        """Return the job to vary: the model file as it is now; of a script, the region that the screen began with."""
        newest = self._engine.job
        if newest is None:
            return self._job
        region = newest.config.region or self._study_context.job.config.region
        return study_job(replace(newest, config=replace(newest.config, region=region)))

    def open(self) -> None:
        """Ask for the study's options if it has any, then begin."""
        if self._options is not None:
            self.begin(self._options)
            return
        prompt = self.study.prompt(self.job, self._study_context.own, self.state)
        if prompt is None:
            self.begin(self.study.options_from(()))
            return
        from tcexplore.ui.screens.prompt_screen import PromptScreen

        self.app.push_screen(PromptScreen(prompt), self._answered)

    def _answered(self, answers: tuple[str, ...] | None) -> None:
        if answers is not None:
            self.begin(self.study.options_from(answers))
        elif self.state is None:
            self.leave()

    @property
    def ended_by_this(self) -> StudyTask | None:
        """The study under way that this one would leave incomplete."""
        return self._study_context.studies.ended_by_another

    def stop_others(self) -> None:
        """End the study under way, if there is one."""
        self._study_context.studies.stop()

    def begin(self, options: object, resume: StudyState[Any, Any] | None = None) -> None:
        """Begin the study; `resume` is a stopped study to continue. The user is asked before it ends another one."""
        ended = self.ended_by_this
        if ended is not None and ended not in (self.study_task, self._end_asked):
            self._end_asked, self._asked = ended, partial(self.begin, options, resume)
            self.say(f"{ended.study.title} goes on, {ended.status}. {hint('study-again')} ends it and begins this one.")
            return
        self._asked = None
        self.stop_others()
        self._job, own = self.job if resume is None else resume.job, self._study_context.own
        self.state = StudyState(self._job, options, run_timeout(own), own=own)
        if resume is not None:
            self.state.results, self.state.planned = list(resume.results), resume.planned
            self.state.machine = resume.machine
        self.study_task = StudyTask(self._engine, self.study, self.state, self._show, self._moved)
        self._study_context.studies.begin(self._key, self.study_task)
        self._show()

    # ---- keys

    def action_stop_study(self) -> None:
        if self.study_task is None or self.study_task.state.over:
            self.say(f"Nothing is running. {hint('study-again')} runs the study again.")
        else:
            self.study_task.stop()

    def action_again(self) -> None:
        (self._asked or self.open)()

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self._toggled ^= {message.row.fold}
            self._show()

    # ---- rows

    def _moved(self) -> None:
        if self.is_mounted:
            self._show_title()
            if self.study.live:
                self._show_document()

    def _show(self) -> None:
        if self.state is not None and self.is_mounted:
            self._show_title()
            self._show_document()
        self._deliver()

    def _deliver(self) -> None:
        """Send the app what the newest results add to the run that the study is of."""
        facts = self.study.facts(self.state) if self.state is not None else ()
        if self.state is not None and facts != self._facts:
            self._facts = facts
            self.app.post_message(StudyMeasured(facts, self.state.job))

    def _show_title(self) -> None:
        """Show how far the study is, and the keys that have an effect."""
        answer = self.study.answer(self.state) if self.state is not None else ""
        newest = self._engine.job.run if self._engine.job is not None else self._job.run
        self._title.update(
            partial(study_title, self.study.title, self._job, self.state, answer, newest, now=monotonic())
        )
        self._footer.update(footer(self.SCOPES, without=self.without_effect))

    def _tick(self) -> None:
        if self.state is not None and not self.state.over:
            self._show_title()

    def _show_document(self) -> None:
        state = self.state
        if state is not None:
            self._view.show(guarded(lambda: self.build(state, self._view.text_width)))


def _same_program(a: Job, b: Job) -> bool:
    """Return whether two jobs are of one program; a study that began has named its region of a script."""
    a, b = on_captured_call(a), on_captured_call(b)
    return (a.source, a.config, a.argv) == (b.source, b.config, b.argv)
