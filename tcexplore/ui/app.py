"""The app: holds the session, hears of runs, and leaves the showing to its screens."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.reactive import var
from textual.screen import Screen

from tcexplore.events import Event, Job, Standby
from tcexplore.session import Session
from tcexplore.ui.actions import available, bindings
from tcexplore.ui.engine import Engine
from tcexplore.ui.messages import RunEvents
from tcexplore.ui.screens.main_screen import MainScreen
from tcexplore.ui.screens.reading_screen import ReadingScreen
from tcexplore.ui.terminal import themes as theme
from tcexplore.ui.terminal.terminal_driver import terminal_gone, thrifty_driver
from tcexplore.ui.undo import Undo

if TYPE_CHECKING:
    from tcexplore.documents.code.target_choices import TargetChoice  # not before the first frame
    from tcexplore.ui.study_keys import Studies

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_NO_COLOR = NoColor()


class ExplorerApp(App[int]):
    """`engine` makes what watches and runs the file, after the first frame. Closing it is the caller's."""

    TITLE = "tcexplore"
    CSS_PATH = "screens/main.tcss"  # textual does not load the style sheet of a default screen by itself
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True

    session: var[Session] = var(Session)

    def __init__(self, engine: Callable[[], Engine], now: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._now = now
        self.animation_level = "none"
        self.engine: Engine | None = None
        self._make_engine = engine
        self.standby: Standby | None = None
        self.main = MainScreen()
        self._studies: Studies | None = None
        self.undo = Undo()
        self._began = now()
        self._own_targets: tuple[str, ...] = ()
        """The files that targets were read from."""
        self.register_theme(theme.DARK)
        self.register_theme(theme.LIGHT)
        self.theme = theme.first_theme(self.console.color_system)

    def get_driver_class(self) -> type[Driver]:
        return thrifty_driver(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual chooses before it knows the theme: its shades of grey would all be black among 16 colors."""
        filters = super().get_line_filters()
        if not (self.no_color and self.native_ansi_color):
            return filters
        return [_NO_COLOR if isinstance(one, Monochrome) else one for one in filters]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {"frame": "ansi_bright_black", "frame-focus": "ansi_blue"}

    def get_default_screen(self) -> Screen[None]:
        return self.main

    # ---- begin and end

    def on_mount(self) -> None:
        self._clock = self.set_interval(0.1, self._tick, pause=True)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        if not self.is_headless:
            self.set_interval(1.0, self._leave_with_the_terminal)
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        from tcexplore.ui.event_batches import EventBatcher  # not before the first frame: it knows the events

        self.engine = self._make_engine()
        await self.engine.start(EventBatcher(self.post_message).add)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """What the first document needs, while the first run is not there yet."""
        import tcexplore.documents.source.source_view  # noqa: F401

        gc.freeze()
        gc.enable()

    def _leave_with_the_terminal(self) -> None:
        if terminal_gone():
            self.exit(return_code=128 + signal.SIGHUP)

    async def action_quit(self) -> None:
        self.exit(0)

    def action_help_quit(self) -> None:
        """What ctrl+c does: many press it to copy."""
        self.notify("q leaves; y copies the row, Y the pane.")

    # ---- events of runs

    def on_run_events(self, message: RunEvents) -> None:
        session = self.session
        for item in message.items:
            if isinstance(item, Job):
                session = session.begin(item)
                self._note_run(item)
            else:
                session = session.apply(item)
                self._note_standby(item)
        self.session = session

    def _note_run(self, job: Job) -> None:
        if job.config.target.endswith(".toml"):
            self._own_targets = tuple(dict.fromkeys((*self._own_targets, job.config.target)))
        self._began = self._now()

    def _note_standby(self, event: Event) -> None:
        if isinstance(event, Standby):
            self.standby = event
            self._tick()

    def watch_session(self, session: Session) -> None:
        newest = session.newest
        under_way = newest is not None and newest.status == "running" and not newest.complete
        if self.main.is_mounted:
            (self._clock.resume if under_way else self._clock.pause)()
            self.main.follow(session, self.standby, self._elapsed)

    @property
    def _elapsed(self) -> float:
        """Seconds since the newest run began."""
        return self._now() - self._began

    def _tick(self) -> None:
        self.main.tick(self.standby, self._elapsed)

    # ---- actions

    def action_rerun(self) -> None:
        if self.engine is not None:
            self.engine.rerun()

    def action_stop_run(self) -> None:
        newest = self.session.newest
        if self.engine is None or newest is None or newest.status != "running":
            self.main.say("Nothing is running: r runs the file again.")
            return
        self.engine.stop_run()
        if newest.phase == "timing":
            self.main.say(f"Timing of run {newest.run} has ended, what it found stays. r runs the file again.")
        else:
            self.main.say(f"Run {newest.run} is stopped. r runs the file again.")

    def action_step(self, by: int) -> None:
        self.session = self.session.step(by)

    def action_newest(self) -> None:
        self.session = self.session.step(len(self.session.runs))

    def action_base(self) -> None:
        self.session = self.session.toggle_baseline()

    def action_ask_calls(self) -> None:
        from tcexplore.ui.screens.prompt_screen import AskScreen, Field
        from tcexplore.ui.typed_numbers import parse_calls

        asked = self.session.expected_calls
        field = Field(
            "How often will it be called? Empty for any number", "" if asked is None else str(asked), parse_calls
        )

        def answered(answers: tuple[str, ...] | None) -> None:
            if answers is not None:
                self.session = self.session.set_expected_calls(parse_calls(answers[0]))

        self.push_screen(AskScreen("Does compiling pay?", (field,), "The timing pane (6) answers."), answered)

    def action_diff(self) -> None:
        from tcexplore.ui.screens.diff_screen import DiffScreen

        self.push_screen(DiffScreen(self.session))

    def action_target(self) -> None:
        from tcexplore.ui.screens.target_screen import TargetScreen

        device = self.standby.device if self.standby is not None else ""
        self.push_screen(TargetScreen(self.session.shown, self._own_targets, device, self._retarget))

    def _retarget(self, choice: TargetChoice) -> None:
        """Show the code for the chosen device: what there is of it at once, else as soon as it is made."""
        shown, newest = self.session.shown, self.session.newest
        if shown is None or newest is None or self.engine is None:
            return
        alive = self.engine.retarget(choice.named, known=newest.has_code(choice.key))
        self.session = self.session.with_target(choice.key)
        if not alive:
            self.main.say(f"Run {newest.run} has ended: a new run makes the code for {choice.key}.")
        elif not shown.has_code(choice.key) and shown is not newest:
            self.main.say(f"Run {shown.run} has ended without code for {choice.key}; the newest run gets it.")

    def action_study(self, name: str) -> None:
        from tcexplore.ui.study_keys import Studies

        if self.engine is None or self.session.newest is None:
            self.main.say("There is no run to study yet.")
            return
        self._studies = self._studies or Studies()
        if trouble := self._studies.open(self, name, self.engine, self.session.newest):
            self.main.say(trouble)

    def action_undo(self) -> None:
        self.main.say(self.undo.take_back())

    def action_toggle_theme(self) -> None:
        self.theme = theme.OTHER[self.theme]

    def action_help(self) -> None:
        from tcexplore.ui.screens.help_screen import HelpScreen

        if isinstance(self.screen, ReadingScreen):
            self.push_screen(HelpScreen(*self.screen.page, self.screen.SCOPES))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The command palette: the table of actions, but for moving the cursor."""
        scopes = screen.SCOPES if isinstance(screen, ReadingScreen) else ("app",)
        for action in available(scopes):
            if action.scope != "view" and action.run != "command_palette":
                target = self if action.scope == "app" else screen
                word = f"{action.label}, key {action.shown}" if action.keys else action.label
                yield SystemCommand(action.help, word, partial(self.run_action, action.run, target))
