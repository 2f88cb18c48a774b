"""The app: applies events to the session, which its screens show."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from time import monotonic, time
from typing import TYPE_CHECKING, ClassVar

from textual.driver import Driver
from textual.events import Event as TextualEvent
from textual.events import Key, MouseDown
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen

from tcexplore import events as ev
from tcexplore.documents.strip import Elapsed
from tcexplore.events import Event
from tcexplore.keymap import UNBOUND, hint, use_keymap
from tcexplore.session import Session
from tcexplore.ui.actions import bindings
from tcexplore.ui.appearance import Appearance
from tcexplore.ui.background_task import collect_garbage, start_gc
from tcexplore.ui.engine import Engine
from tcexplore.ui.messages import KeyHandled
from tcexplore.ui.pane_grid import Place
from tcexplore.ui.run_actions import RunActions
from tcexplore.ui.saved_settings import Settings
from tcexplore.ui.screens.reading_screen import ReadingScreen
from tcexplore.ui.terminal_driver import limited_driver, terminal_closed
from tcexplore.ui.themes import DARK_THEME, LIGHT_THEME, configured_theme, first_theme, frame_colors, opposite

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import RenderableType
    from textual.command import Provider

    from tcexplore.events import BreakFix
    from tcexplore.processes import Deadline
    from tcexplore.session import Snapshot
    from tcexplore.ui.run_history import RunHistory
    from tcexplore.ui.session_answers import SessionAnswers

URGENT_TICK_S = 0.008
"""Minimum seconds between two updates for events that the user waits for after a save."""

TICK_S = 0.04
"""Seconds that other events wait for more of them, so that many events cost few updates."""

CLOCK_S = 0.25
"""Seconds between two updates of what the run under way does."""

OLD_AFTER_S = 0.4
"""Seconds of a run after which panes that still show an older run say so. Most runs have results before."""

TIDY_S = 1.0
"""Seconds after the start of a run until older runs are compressed; they are not while a run compiles."""

STORE_S = 40.0
"""Seconds after the start of a run until it is stored, with a settled timing. It is stored again at its end."""

UNTIDY_RUNS = 20
"""Runs after which they are compressed in any case."""

ANSWER_S = 10.0
"""Seconds in which the user may answer whether to end a job."""

LONGEST_KEY_S = 0.5
"""Seconds after which a key no longer holds up the next ones: the widget that handled it is gone."""

ENDLESS = ("timing", "answering")
"""Phases whose time is not shown: they last until the next save."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_NO_COLOR = NoColor()


@cache
def _urgent() -> tuple[type, ...]:
    """Return the types that the user waits for after a save."""
    return (ev.Job, ev.Standby, ev.GraphCaptured, ev.GraphBreak, ev.Kernel, ev.Failed, ev.Finished)


def _command_provider() -> type[Provider]:
    """Return the palette's provider, which is imported when the palette opens."""
    from tcexplore.ui.palette import CommandProvider

    return CommandProvider


class ExplorerApp(RunActions):
    """`engine` returns what watches and runs the file, `history` the runs of a file on disk.

    Both are called after the first frame. `end` begins when the user or a signal ends the app; without it, signals are
    not handled. The caller closes the engine, and stores the last run.
    """

    TITLE = "tcexplore"
    CSS_PATH = "screens/main.tcss"  # Textual does not load the style sheet of a default screen
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {_command_provider}
    PAUSE_GC_ON_SCROLL = True

    def __init__(
        self,
        engine: Callable[[], Engine],
        now: Callable[[], float] = monotonic,
        settings: Settings | None = None,
        history: Callable[[str], RunHistory] | None = None,
        appearance: Appearance | None = None,
        end: Deadline | None = None,
        file: str = "",
    ) -> None:
        """`file` is the model file, whose place in the settings the panes open with; empty for a trace."""
        self._end = end
        appearance = appearance or Appearance()
        use_keymap(appearance.keymap)  # first: the main screen's footer is made with the app
        super().__init__()
        self.history_of = history
        self._now = now
        self.animation_level = "none"
        self._make_engine = engine
        self._started = self._phase_started = now()
        self._keys: deque[Key] = deque()
        """The key that is being handled, and those that came since."""
        self._quit_asked: tuple[float, int] | None = None
        """When the user was asked whether to end a job, and the inputs until then."""
        self._delivered: list[ev.Job | Event] = []
        """Jobs and events that the session does not have yet."""
        self._last_update = 0.0
        """When the session got the last ones, on the event loop's clock."""
        self._update_timer: asyncio.TimerHandle | None = None
        self._answers: SessionAnswers | None = None
        """None before the first run is complete."""
        self._untidy_runs = 0
        """Runs that began since older runs were compressed."""
        self._under_way = False
        """Whether the newest run still compiles."""
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        self._set_first_theme(first_theme(self.console.color_system))
        self.file = file
        self._restore(settings or Settings())
        self._configure(appearance)

    def _set_first_theme(self, name: str) -> None:
        """Set the theme, for one like Textual's own without a second pass over all styles before the first frame."""
        first, own = self.available_themes[name], self.current_theme
        if (first.ansi, first.dark) == (own.ansi, own.dark):
            self.set_reactive(ExplorerApp.theme, name)
        else:
            self.theme = name

    def _restore(self, settings: Settings) -> None:
        """Use the user's settings. A theme is used only in a terminal with as many colors as the default one needs."""
        last = self.available_themes.get(settings.theme)
        if last is not None and last.ansi == self.current_theme.ansi:
            self.theme = last.name
        self.main.grid.sizes = settings.sizes
        self.used_commands.update(settings.used_commands)
        self.remembered = settings
        place = settings.place_in(self.file) if self.file else Place()
        for pane in self.main.grid.panes.values():
            pane.view = pane.spec.view(place.views.get(pane.spec.id, "")) or pane.view
        if place.pane in self.main.grid.panes:
            self.main.grid.open_with(place.pane)

    def _configure(self, appearance: Appearance) -> None:
        """Bind the configured keys, and use the configured theme. The theme comes before the one that was used last."""
        self.set_keymap({name: keys or UNBOUND for name, keys in appearance.keymap.items()})
        self.target_files = appearance.targets
        if appearance.theme:
            theme = configured_theme(appearance.theme, appearance.colors)
            self.register_theme(theme)
            self.theme = theme.name

    def chosen_settings(self, stored: Settings) -> Settings:
        """Return settings that any app has stored with what the user has chosen since the start of this one."""
        chosen = replace(stored, sizes=self.main.grid.sizes, theme=self.theme, used_commands=dict(self.used_commands))
        for file, target in self.chosen_targets.items():
            chosen = chosen.with_target(file, target)
        places = {**self.left_places, self.file: self.main.grid.place} if self.file else {}
        for file, place in places.items():
            chosen = chosen.with_place(file, place)
        return chosen

    def get_driver_class(self) -> type[Driver]:
        return limited_driver(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Replace the filter that Textual chose before it knew the theme: in 16 colors its grays would all be black."""
        filters = super().get_line_filters()
        if not (self.no_color and self.native_ansi_color):
            return filters
        return [_NO_COLOR if isinstance(line_filter, Monochrome) else line_filter for line_filter in filters]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return frame_colors(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        return self.main

    # ---- start and exit

    def on_mount(self) -> None:
        self._clock = self.set_interval(CLOCK_S, self.show_progress, pause=True)
        for number in _SIGNALS if self._end is not None else ():
            asyncio.get_running_loop().remove_signal_handler(number)  # of the driver for a browser
            signal.signal(number, partial(self._handle_signal, asyncio.get_running_loop()))
        if not self.is_headless:
            self.set_interval(1.0, self._exit_if_terminal_closed)
        self.call_after_refresh(self._start)

    def _handle_signal(self, loop: asyncio.AbstractEventLoop, number: int, _: FrameType | None) -> None:
        """Exit. Not a handler of the event loop, since that would wait for a loop that is busy."""
        self._begin_end(128 + number)
        with suppress(RuntimeError):  # the loop is closed: the app has ended
            loop.call_soon_threadsafe(partial(self.exit, return_code=128 + number))

    def exit(self, result: int | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Exit the app; the process ends within `deadline.END_S`, also if something in it does not end."""
        self._begin_end(return_code)
        super().exit(result, return_code, message)

    def _begin_end(self, status: int) -> None:
        if self._end is not None:
            self._end.begin(status)

    async def _start(self) -> None:
        self.engine = self._make_engine()
        if self.engine.waiting:
            for pane in self.main.grid.panes.values():
                pane.show_waiting(self.engine.waiting)
        await self.engine.start(self.deliver)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """Import what the first document needs while the first run is under way."""
        import tcexplore.documents.source_view  # noqa: F401

        start_gc()
        if self.engine is not None and self.engine.job is not None:
            self.open_history(self.engine.job.file)

    def _exit_if_terminal_closed(self) -> None:
        if terminal_closed():
            self.exit(return_code=128 + signal.SIGHUP)

    async def on_event(self, event: TextualEvent) -> None:
        """Withdraw the question whether to end a job with the next key: only an immediate answer counts."""
        if isinstance(event, (Key, MouseDown)) and not event.is_forwarded:
            self._inputs += 1
            if self._quit_asked is not None and self._inputs == self._quit_asked[1] + 1:
                self.clear_notifications()
        if isinstance(event, Key) and not event.is_forwarded:
            self._keys.append(event)
            if len(self._keys) == 1:
                await self._begin_key()
            else:
                self._limit_key()
        else:
            await super().on_event(event)

    async def _begin_key(self) -> None:
        """Handle the first of the keys, the others only after it.

        Over a slow connection, keys arrive together: what follows `/` belongs to the search, which has no focus yet.
        """
        key, widget = self._keys[0], self.focused or self.screen
        await super().on_event(key)
        if not (key.is_forwarded and widget.post_message(KeyHandled(key))):
            self.post_message(KeyHandled(key))

    def _limit_key(self) -> None:
        """End the key that is being handled after a while, even if its widget is gone."""
        self.set_timer(LONGEST_KEY_S, partial(self._end_key, self._keys[0]))

    def on_key_handled(self, message: KeyHandled) -> None:
        """End a key once the screen that it may have opened is there, and has its focus."""
        self.screen.call_later(self.call_later, self._end_key, message.key)

    async def _end_key(self, key: Key) -> None:
        if self._keys and self._keys[0] is key:
            self._keys.popleft()
            if self._keys:
                await self._begin_key()
            if len(self._keys) > 1:
                self._limit_key()

    async def action_quit(self) -> None:
        """Exit; ask first if that ends a job of the user."""
        job = self.engine.job_to_end if self.engine is not None else ""
        asked_at, inputs = self._quit_asked or (float("-inf"), 0)
        if job and (self._inputs > inputs + 1 or self._now() - asked_at > ANSWER_S):
            self._quit_asked = self._now(), self._inputs
            choice = f"{hint('quit')} again ends both; --detach leaves it running."
            self.notify(
                f"{job} still runs, and ends with tcexplore. {choice}",
                severity="warning",
                timeout=ANSWER_S,
            )
            return
        self.exit(0)

    def action_help_quit(self) -> None:
        """Handle ctrl+c, which many press to copy."""
        self.notify(f"{hint('quit')} leaves; {hint('copy')} copies the row, {hint('copy-all')} the pane.")

    # ---- events of runs

    def deliver(self, item: ev.Job | Event) -> None:
        """Take a new job or an event from the engine; the session gets it soon. Must be called in the event loop."""
        previous = self._delivered[-1] if self._delivered else None
        joined = previous.joined(item) if isinstance(item, ev.Output) and isinstance(previous, ev.Output) else None
        if joined is None:
            self._delivered.append(item)
        else:
            self._delivered[-1] = joined
        loop = asyncio.get_running_loop()
        now, timer = loop.time(), self._update_timer
        due = max(now, self._last_update + URGENT_TICK_S) if isinstance(item, _urgent()) else now + TICK_S
        if timer is None or due < timer.when():
            if timer is not None:
                timer.cancel()
            self._update_timer = loop.call_at(due, self.call_later, self._update_session)

    def _update_session(self) -> None:
        """Apply what was delivered to the session."""
        self._update_timer, self._last_update = None, asyncio.get_running_loop().time()
        items, self._delivered = self._delivered, []
        session, events = self.session, list[ev.Event]()
        for item in items:
            if isinstance(item, ev.Job):
                if self.study_progress:
                    self.stop_study()  # it would hold up the timing of the new run
                session, events = session.apply_all(events), []
                if item.config.target.endswith(".toml"):
                    self.target_files = tuple(dict.fromkeys((*self.target_files, item.config.target)))
                self._started = self._phase_started = self._now()
                session = session.begin(item, time())
                self.set_timer(STORE_S, partial(self._store_newest, item.run))
                if not self._untidy_runs:
                    self.set_timer(TIDY_S, self._tidy)
                self._untidy_runs += 1
                continue
            if isinstance(item, ev.Standby):
                self.standby = item
                self.show_progress()
            elif isinstance(item, ev.RecompileAnswer) and item.number in self.dropped_queries:
                continue
            elif isinstance(item, ev.PhaseStarted):
                self._phase_started = self._now()
            events.append(item)
        self.session = session.apply_all(events)

    async def close_answers(self) -> None:
        """Stop answering `tcexplore ask`."""
        if self._answers is not None:
            await self._answers.close()

    def watch_session(self, session: Session) -> None:
        """Update the clock; the main screen and its panes watch the session, too."""
        newest = session.newest
        if self._answers is not None:
            self._answers.update()
        elif newest is not None and newest.complete and self._end is not None:
            from tcexplore.ui.session_answers import SessionAnswers

            self._answers = SessionAnswers(self)
            self._answers.update()
        if newest is not None and self.engine is not None:
            self.engine.update(newest)
        self._under_way = newest is not None and newest.status == "running" and not newest.complete
        if self.main.is_mounted:
            ends = newest is not None and newest.status == "running" and newest.phase not in ENDLESS
            (self._clock.resume if ends else self._clock.pause)()
            self.show_progress()
        if newest is not None:
            self._open_awaited_fix(newest)
        if newest is not None and newest.breaks and newest.complete:
            self._prepare_fixes(newest)
        elif self._fixes is not None:
            self._fixes.stop()

    def _prepare_fixes(self, run: Snapshot) -> None:
        if run.trace:
            from tcexplore.fixes.known_fix import proposed_fixes

            for fix in proposed_fixes(run):
                self._deliver_fix(fix)
            return
        if self._fixes is None and self.engine is not None:
            from tcexplore.ui.screens.fix_screen import FixPreparation

            self._fixes = FixPreparation(self.engine, self._deliver_fix)
        if self._fixes is not None:
            self._fixes.update(run, idle=self._idle)

    @property
    def _idle(self) -> bool:
        """Whether the panes are in view and no study goes on behind them."""
        return len(self.screen_stack) == 1 and (self._studies is None or self._studies.under_way is None)

    def _deliver_fix(self, fix: BreakFix) -> None:
        # A watcher of the session must not change it.
        self.call_later(self._show_fix, fix)

    def _show_fix(self, fix: BreakFix) -> None:
        self.session = self.session.apply(fix)

    def _tidy(self) -> None:
        """Compress older runs and collect garbage, unless the user waits for a run and little is to be done."""
        if self._under_way and self._untidy_runs < UNTIDY_RUNS:
            self.set_timer(TIDY_S, self._tidy)
            return
        self._untidy_runs = 0
        if self.history is not None:
            self.run_worker(self.history.store(self.session, newest=False), group="store", exit_on_error=False)
        self.session = self.session.pack()
        collect_garbage(self.session.newest)

    def _store_newest(self, run: int) -> None:
        """Store the newest run, if it still is the one with this number, in case the app is killed."""
        newest = self.session.newest
        if self.history is not None and newest is not None and newest.run == run and newest.complete:
            self.run_worker(self.history.store(self.session, newest=True), group="store", exit_on_error=False)

    def show_progress(self) -> None:
        """Show how long the run under way has taken, and which panes still wait for it."""
        now = self._now()
        self.main.grid.late = not self._under_way or now - self._started >= OLD_AFTER_S
        elapsed = Elapsed(now - self._started, now - self._phase_started)
        self.main.show_title(self.session, self.standby, elapsed, self.study_progress)

    def watch_study_progress(self) -> None:
        if self.main.is_mounted:
            self.show_progress()

    # ---- actions

    def action_undo(self) -> None:
        self.main.say(self.undo.restore())

    def action_toggle_theme(self) -> None:
        self.theme = opposite(self.current_theme)

    def action_help(self) -> None:
        from tcexplore.ui.screens.help_screen import HelpScreen

        if isinstance(self.screen, ReadingScreen):
            newest = self.session.newest
            trace = newest is not None and bool(newest.trace)
            self.push_screen(HelpScreen(*self.screen.page, self.screen.SCOPES, trace=trace))
