"""The app: applies events to the session, which its screens show."""

from __future__ import annotations

import asyncio
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

from tcexplore import events as ev
from tcexplore.events import Job, Standby
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link
from tcexplore.ui.actions import available, bindings
from tcexplore.ui.background_task import collect_garbage, start_gc
from tcexplore.ui.editor import Undo
from tcexplore.ui.engine import Engine
from tcexplore.ui.messages import FixRequested, RecompileCheckRequested, RunEvents
from tcexplore.ui.row_targets import break_of
from tcexplore.ui.screens.main_screen import MainScreen
from tcexplore.ui.screens.reading_screen import ReadingScreen
from tcexplore.ui.terminal.terminal_driver import minimizing_driver, terminal_closed
from tcexplore.ui.terminal.themes import DARK_THEME, LIGHT_THEME, OTHER, first_theme

if TYPE_CHECKING:
    from tcexplore.documents.code.target_choices import TargetChoice  # not imported before the first frame
    from tcexplore.events import BreakFix
    from tcexplore.ui.fix_preparation import FixPreparation
    from tcexplore.ui.screens.fix_screen import FixScreen
    from tcexplore.ui.screens.study_screen import LastStudies

CLOCK_S = 0.25
"""Seconds between two updates of what the run under way does."""

OLD_AFTER_S = 0.4
"""Seconds of a run after which panes that still show an older run say so. Most runs have results before."""

TIDY_S = 1.0
"""Seconds after the begin of a run until older runs are compressed; they are not while a run compiles."""

UNTIDY_RUNS = 20
"""Runs after which they are compressed in any case."""

ENDLESS = ("timing", "answering")
"""Phases whose time is not shown: they last until the next save."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_NO_COLOR = NoColor()


class ExplorerApp(App[int]):
    """`engine` returns what watches and runs the file; it is called after the first frame. The caller closes it."""

    TITLE = "tcexplore"
    CSS_PATH = "screens/main.tcss"  # Textual does not load the style sheet of a default screen
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
        self._last_studies: LastStudies = {}
        self.undo = Undo()
        self._fixes: FixPreparation | None = None
        self._started = self._phase_started = now()
        self._untidy_runs = 0
        """Runs that began since older runs were compressed."""
        self._under_way = False
        """Whether the newest run still compiles."""
        self._target_files: tuple[str, ...] = ()
        """Target files given so far."""
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        self.theme = first_theme(self.console.color_system)

    def get_driver_class(self) -> type[Driver]:
        return minimizing_driver(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Replace the filter that Textual chose before it knew the theme: in 16 colors its grays would all be black."""
        filters = super().get_line_filters()
        if not (self.no_color and self.native_ansi_color):
            return filters
        return [_NO_COLOR if isinstance(line_filter, Monochrome) else line_filter for line_filter in filters]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {"frame": "ansi_bright_black", "frame-focus": "ansi_blue"}

    def get_default_screen(self) -> Screen[None]:
        return self.main

    # ---- start and exit

    def on_mount(self) -> None:
        self._clock = self.set_interval(CLOCK_S, self.show_progress, pause=True)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        if not self.is_headless:
            self.set_interval(1.0, self._exit_if_terminal_closed)
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        from tcexplore.ui.event_batches import EventBatcher  # after the first frame: it imports the events

        self.engine = self._make_engine()
        await self.engine.start(EventBatcher(self.post_message).add)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """Import what the first document needs while the first run is under way."""
        import tcexplore.documents.source.source_view  # noqa: F401

        start_gc()

    def _exit_if_terminal_closed(self) -> None:
        if terminal_closed():
            self.exit(return_code=128 + signal.SIGHUP)

    async def action_quit(self) -> None:
        self.exit(0)

    def action_help_quit(self) -> None:
        """Handle ctrl+c, which many press to copy."""
        self.notify("q leaves; y copies the row, Y the pane.")

    # ---- events of runs

    def on_run_events(self, message: RunEvents) -> None:
        session = self.session
        for item in message.items:
            if isinstance(item, Job):
                if item.config.target.endswith(".toml"):
                    self._target_files = tuple(dict.fromkeys((*self._target_files, item.config.target)))
                self._started = self._phase_started = self._now()
                session = session.begin(item)
                if not self._untidy_runs:
                    self.set_timer(TIDY_S, self._tidy)
                self._untidy_runs += 1
                continue
            if isinstance(item, Standby):
                self.standby = item
                self.show_progress()
            elif isinstance(item, ev.PhaseStarted):
                self._phase_started = self._now()
            session = session.apply(item)
        self.session = session

    def watch_session(self, session: Session) -> None:
        """Update the clock; the main screen and its panes watch the session, too."""
        newest = session.newest
        self._under_way = newest is not None and newest.status == "running" and not newest.complete
        if self.main.is_mounted:
            ends = newest is not None and newest.status == "running" and newest.phase not in ENDLESS
            (self._clock.resume if ends else self._clock.pause)()
            self.show_progress()
        if newest is not None and newest.breaks and newest.complete:
            self._prepare_fixes(newest)
        elif self._fixes is not None:
            self._fixes.stop()

    def _prepare_fixes(self, run: Snapshot) -> None:
        if self._fixes is None and self.engine is not None:
            from tcexplore.ui.fix_preparation import FixPreparation

            self._fixes = FixPreparation(self.engine, self._deliver_fix)
        if self._fixes is not None:
            self._fixes.update(run, idle=len(self.screen_stack) == 1)

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
        self.session = self.session.pack()
        collect_garbage(self.session.newest)

    def show_progress(self) -> None:
        """Show how long the run under way has taken, and which panes still wait for it."""
        now = self._now()
        self.main.grid.late = not self._under_way or now - self._started >= OLD_AFTER_S
        self.main.show_title(self.session, self.standby, now - self._started, now - self._phase_started)

    # ---- actions

    def action_rerun(self) -> None:
        if self._trace_only():
            return
        if self.engine is not None:
            self.engine.rerun()

    def action_stop_run(self) -> None:
        if self._trace_only():
            return
        newest = self.session.newest
        if self.engine is None or newest is None or newest.status != "running":
            self.main.say("Nothing is running: r runs the file again.")
            return
        self.engine.stop_run()
        if newest.phase == "timing":
            self.main.say(f"Timing of run {newest.run} has ended; its results are kept. r runs the file again.")
        else:
            self.main.say(f"Run {newest.run} is stopped. r runs the file again.")

    def action_step(self, by: int) -> None:
        self.session = self.session.step(by)

    def action_newest(self) -> None:
        self.session = self.session.step(len(self.session.summaries))

    def action_base(self) -> None:
        self.session = self.session.toggle_baseline()

    def action_ask_calls(self) -> None:
        from tcexplore.studies.study import Prompt, PromptField
        from tcexplore.ui.screens.prompt_screen import PromptScreen, parse_calls

        current = self.session.expected_calls
        value = "" if current is None else str(current)
        field = PromptField("Number of calls? Empty for any number", value, parse_calls)
        prompt = Prompt("Does compiling pay off?", (field,), "The timing pane (6) answers.")

        def answered(answers: tuple[str, ...] | None) -> None:
            if answers is not None:
                self.session = self.session.set_expected_calls(parse_calls(answers[0]))

        self.push_screen(PromptScreen(prompt), answered)

    def _trace_only(self) -> bool:
        """Tell the user that a trace cannot be run, if one is in view; return whether one is."""
        newest = self.session.newest
        if newest is None or not newest.trace:
            return False
        self.main.say("A trace cannot be run again. `tcexplore FILE` explores the program itself.")
        return True

    def on_fix_requested(self, message: FixRequested) -> None:
        if self._trace_only():
            return
        screen = self._fix_screen(message.links)
        if isinstance(screen, str):
            self.main.say(screen)
        else:
            self.push_screen(screen)

    def _fix_screen(self, links: Sequence[Link]) -> FixScreen | str:
        """Return the screen that fixes the graph break of these links in the newest run, or why there is none."""
        run, engine = self.session.newest, self.engine
        if engine is None or engine.job is None or run is None or not run.complete:
            return "The run is not over yet: not all graph breaks are known."
        if run.entry is not None and run.entry.kind == "script":
            return "This file calls torch.compile itself: there is no eager version to compare a fix with."
        graph_break = break_of(run, links)
        if graph_break is None:
            return "Put the cursor on a graph break or on its line: b goes to the next one."
        from tcexplore.ui.screens.fix_screen import FixScreen

        prepared = self._fixes.take(run, graph_break) if self._fixes is not None else None
        return FixScreen(engine, engine.job, run, graph_break, self.undo, prepared)

    def on_recompile_check_requested(self, message: RecompileCheckRequested) -> None:
        if self._trace_only():
            return
        from tcexplore.ui.recompile_query import recompile_prompt

        prompt = recompile_prompt(self.session, message.links)
        if isinstance(prompt, str):
            self.main.say(prompt)
            return

        def answered(answers: tuple[str, ...] | None) -> None:
            if answers is not None:
                self._query_recompile(*prompt.query(answers))

        self.push_screen(prompt.screen, answered)

    def _query_recompile(self, inputs: tuple[str, ...], region: int | None) -> None:
        from tcexplore.events.commands import RecompileQuery
        from tcexplore.ui.recompile_query import ENDED

        self.main.show_view("guards", "check")
        if self.engine is None or not self.engine.send(RecompileQuery(inputs=inputs, region=region)):
            self.main.say(ENDED, "warning")
        elif self.session.shown is not None and not self.session.shown.complete:
            when = "once everything is compiled" if region is None else "after the script's next call"
            self.main.say(f"The answer comes {when}.")

    def action_diff(self) -> None:
        from tcexplore.ui.screens.diff_screen import DiffScreen

        self.push_screen(DiffScreen(self.session))

    def action_target(self) -> None:
        if self._trace_only():
            return
        from tcexplore.ui.screens.target_screen import TargetScreen

        device = self.standby.device if self.standby is not None else ""
        self.push_screen(TargetScreen(self.session.shown, self._target_files, device, self._retarget))

    def _retarget(self, choice: TargetChoice) -> None:
        """Show the code for the chosen device, at once if it has been generated."""
        shown, newest = self.session.shown, self.session.newest
        if shown is None or newest is None or self.engine is None:
            return
        alive = self.engine.retarget(choice.named, known=newest.has_code(choice.key))
        self.session = self.session.with_target(choice.key)
        if not alive:
            self.main.say(f"Run {newest.run} has ended: a new run generates the code for {choice.key}.")
        elif not shown.has_code(choice.key) and shown is not newest:
            self.main.say(f"Run {shown.run} has ended without code for {choice.key}; the newest run generates it.")

    def action_study(self, name: str) -> None:
        if self._trace_only():
            return
        if self.engine is None or self.session.newest is None:
            self.main.say("No run to study yet.")
            return
        from tcexplore.ui.open_study import open_study

        if self._fixes is not None:
            self._fixes.stop()
        if message := open_study(self, name, self.engine, self.session.newest, self._last_studies):
            self.main.say(message)

    def action_ranks(self) -> None:
        from tcexplore.ui.screens.ranks_screen import RanksScreen

        if isinstance(self.screen, RanksScreen):
            self.screen.leave()
            return
        runs = getattr(self.engine, "runs", None)
        self.push_screen(RanksScreen(self.session, lambda: runs or {}, self._show_rank))

    def _show_rank(self, rank: int) -> str:
        """Show a rank of a trace, and read it first if necessary; return why it can't be shown."""
        from tcexplore.ui.rank_engine import RankEngine

        if not isinstance(self.engine, RankEngine):
            return "Only a trace has ranks."
        run = self.engine.runs.get(rank)
        if run is not None:
            at = [snapshot.run for snapshot in self.session.runs]
            shown = self.session.shown
            if shown is not None and run in at:
                self.session = self.session.step(at.index(run) - at.index(shown.run))
            return ""
        return "" if self.engine.load(rank) else f"Rank {rank} has no trace."

    def action_undo(self) -> None:
        self.main.say(self.undo.restore())

    def action_toggle_theme(self) -> None:
        self.theme = OTHER[self.theme]

    def action_help(self) -> None:
        from tcexplore.ui.screens.help_screen import HelpScreen

        if isinstance(self.screen, ReadingScreen):
            self.push_screen(HelpScreen(*self.screen.page, self.screen.SCOPES))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return the actions of the table for the command palette, without those that move the cursor."""
        scopes = screen.SCOPES if isinstance(screen, ReadingScreen) else ("app",)
        for action in available(scopes):
            if action.scope != "view" and action.run != "command_palette":
                target = self if action.scope == "app" else screen
                label = f"{action.label}, key {action.shown}" if action.keys else action.label
                yield SystemCommand(action.help, label, partial(self.run_action, action.run, target))
