"""The app without a terminal and workers, on a made-up session and a fixed theme."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from tcexplore.events import Event, Finished, Job, Standby
from tcexplore.events.commands import PauseTiming, RecompileQuery, RunCommand
from tcexplore.keymap import ACTIONS
from tcexplore.model_python import OWN_PYTHON
from tcexplore.session import Session, Snapshot
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.appearance import Appearance
from tcexplore.ui.engine import Deliver, Engine
from tcexplore.ui.pane import Pane
from tcexplore.ui.row_view import RowView
from tcexplore.ui.screens.study_screen import StudyScreen
from tests.documents.golden import check
from tests.studies.playback import JOB, Playback, Story

GOLDENS = Path(__file__).parent / "goldens"
PATIENCE_S = 60

ShownStudy = TypeVar("ShownStudy", bound=StudyScreen)


def _not_started(_: Job | Event) -> None:
    raise AssertionError("not started")


class FakeEngine(Engine):
    """Watches and runs nothing; records requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.job = JOB
        self.pythons = (OWN_PYTHON,)
        self.story: Story = lambda _: (Finished(),)
        """The events of each job that a study runs."""
        self.queries: list[RecompileQuery] = []
        self.pauses = 0
        self.alive = True
        """Whether a run can take commands."""
        self.queues: list[Playback] = []
        self.deliver: Deliver = _not_started

    async def start(self, deliver: Deliver) -> None:
        self.deliver = deliver
        deliver(Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=1.5))

    def rerun(self) -> bool:
        self.requests.append("rerun")
        return True

    def update(self, run: Snapshot) -> None:
        """React to nothing."""

    def stop_run(self) -> None:
        self.requests.append("stop")

    def configure(self, mode: str, backend: str, dynamic: bool | None, further: tuple[str, ...] | None = None) -> None:
        self.requests.append(" ".join([f"{backend} {mode} {dynamic}", *(further or ())]))

    def compile_name(self, name: str | None) -> None:
        self.requests.append(f"compile {name}")

    def open_file(self, file: str, target: str = "") -> None:
        self.requests.append(f"open {file} {target}".rstrip())

    def send(self, command: RunCommand) -> bool:
        if isinstance(command, PauseTiming):
            self.pauses += 1 if command.paused else -1
        elif isinstance(command, RecompileQuery):
            self.queries.append(command)
            of = "" if command.region is None else f" of region {command.region}"
            self.requests.append(f"ask {', '.join(command.inputs)}{of}")
        return self.alive

    def study_queue(self, emit: Callable[[Event], None]) -> Playback:
        self.queues.append(Playback(emit, self.story))
        return self.queues[-1]

    def retarget(self, target: str, *, known: bool) -> bool:
        self.requests.append(f"retarget {target}{' known' if known else ''}")
        return self.alive

    async def close(self) -> None:
        self.requests.append("close")


class AppUnderTest:
    """The running app with its pilot, and shortcuts for tests."""

    def __init__(self, app: ExplorerApp, engine: FakeEngine, pilot: Pilot[int], clock: list[float]) -> None:
        self.app, self.engine, self.pilot, self._clock = app, engine, pilot, clock

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def act(self, name: str) -> None:
        """Run an action by its name, as the command list does, also one without a key."""
        action = next(action for action in ACTIONS if action.name == name)
        await self.app.run_action(action.run, self.app if action.scope == "app" else self.app.main)
        await self.settle()

    async def settle(self) -> None:
        """Wait until workers are done and the screen is drawn; a worker may make place for a newer one meanwhile."""
        done = False
        while not done:
            try:
                await self.app.workers.wait_for_complete()
                done = True
            except WorkerCancelled:
                await self.pilot.pause()
        await self.pilot.pause()

    async def study_ended(self, kind: type[ShownStudy]) -> ShownStudy:
        """Wait for the study on the screen, which is of a class, and return the screen."""
        screen = self.app.screen
        assert isinstance(screen, kind)
        await self.ended(screen)
        return screen

    async def ended(self, screen: StudyScreen) -> None:
        """Wait for the study of a screen, which may be closed."""
        assert screen.study_task is not None
        await screen.study_task.ended()
        await self.settle()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the app run until a condition holds. Raises `TimeoutError`."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await self.pilot.pause()

    async def elapse(self, seconds: float) -> None:
        """Let time pass for the app's clock."""
        self._clock[0] += seconds
        self.app.show_progress()
        await self.settle()

    async def show(self, session: Session) -> None:
        self.app.session = session
        await self.settle()

    def pane(self, name: str) -> Pane:
        return self.app.main.grid.panes[name]

    def view(self, name: str) -> RowView:
        return self.pane(name).rows

    @property
    def current(self) -> str:
        return self.app.main.grid.current

    @property
    def in_view(self) -> list[str]:
        return [pane.spec.id for pane in self.app.main.grid.visible_panes]

    def row(self, name: str) -> str:
        """Return the text of the row under the cursor of a pane."""
        row = self.view(name).cursor_row
        return row.text if row else ""

    @property
    def notifications(self) -> list[str]:
        """The messages of the notifications on the screen."""
        return [note.message for note in self.app._notifications]

    @property
    def screen(self) -> str:
        """The terminal's text, line by line, without trailing blanks."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()) + "\n"


@asynccontextmanager
async def run_app(
    session: Session | None = None, size: tuple[int, int] = (160, 50), appearance: Appearance | None = None
) -> AsyncIterator[AppUnderTest]:
    """Run the app on a session."""
    engine, clock = FakeEngine(), [0.0]
    app = ExplorerApp(lambda: engine, now=lambda: clock[0], appearance=appearance)
    if appearance is None or not appearance.theme:
        app.theme = "tcexplore-dark"  # before the start, which parses the style sheets for the theme
    async with app.run_test(size=size, notifications=True) as pilot:
        ui = AppUnderTest(app, engine, pilot, clock)
        await ui.show(session or Session())
        yield ui


def check_screen(name: str, ui: AppUnderTest) -> None:
    """Compare the screen, without its footer, with `goldens/NAME.txt` here. `footers.txt` has all footers."""
    rows = ui.screen.splitlines(keepends=True)
    check(name, "".join(rows[:-1]), GOLDENS)
