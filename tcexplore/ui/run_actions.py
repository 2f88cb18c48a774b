"""Actions of the user on runs: rerun, step, fix, check, study, choose a target, go to a rank."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.reactive import var

from tcexplore import events as ev
from tcexplore.keymap import Action, hint
from tcexplore.quantities import count
from tcexplore.session import Session
from tcexplore.session.links import GUARD_FILTERS_LINK, Link, kernel_link
from tcexplore.targets.target_names import NATIVE
from tcexplore.ui.engine import Engine, RankEngine
from tcexplore.ui.messages import (
    FixRequested,
    RecompileCheckRequested,
    RunChosen,
    RunNeeded,
    StepRequested,
    StudyMeasured,
)
from tcexplore.ui.navigation import break_of
from tcexplore.ui.pane_grid import Place
from tcexplore.ui.saved_settings import Settings
from tcexplore.ui.screens.main_screen import MainScreen
from tcexplore.ui.user_files import Undo

if TYPE_CHECKING:
    from tcexplore.documents.code.target_choices import TargetChoice  # not imported before the first frame
    from tcexplore.events.commands import RecompileQuery
    from tcexplore.session import Snapshot
    from tcexplore.session.history import StoredRun
    from tcexplore.studies.study import Prompt, Study
    from tcexplore.ui.run_history import RunHistory
    from tcexplore.ui.screens.fix_screen import FixPreparation, FixScreen
    from tcexplore.ui.screens.study_screen import Studies, StudyContext, StudyScreen, StudyTask

USUAL_GPU = "h100"
"""The target that is offered first for machine code on a machine without a GPU."""


class RunActions(App[int]):
    """The actions on the runs of a session."""

    session: var[Session] = var(Session)
    study_progress: var[str] = var("")
    """How far the study is that goes on while its screen is closed; empty without one."""

    def __init__(self) -> None:
        super().__init__()
        self.engine: Engine | None = None
        self.standby: ev.Standby | None = None
        self.main = MainScreen()
        self.undo = Undo()
        self.used_commands: Counter[str] = Counter()
        """How often the user chose each command of the palette."""
        self._studies: Studies | None = None
        """Those of the file; None before the first one."""
        self._fixes: FixPreparation | None = None
        self._fix_awaited: tuple[int, tuple[Link, ...], int] | None = None
        """The run, and the links of the break, whose fix opens once the run is over; and the inputs until then."""
        self._inputs = 0
        """Keys and mouse buttons pressed so far."""
        self.history_of: Callable[[str], RunHistory] | None = None
        """Returns the runs of a model file on disk; None without a history."""
        self.history: RunHistory | None = None
        """Those of the current file."""
        self._read_next: int | None = None
        """Number of the run that is being read, and is shown once it is read."""
        self._last_query = 0
        """Number of the last recompile query."""
        self.dropped_queries: set[int] = set()
        """Numbers of recompile queries whose form the user left: their answers are ignored."""
        self._needed: set[int] = set()
        """Runs that are being read for a screen that compares them."""
        self.chosen_targets: dict[str, str] = {}
        """The target that the user chose last for each file, as in `Config.target`."""
        self.file = ""
        """The model file; empty for a trace."""
        self.remembered = Settings()
        """The user's choices of earlier starts."""
        self.left_places: dict[str, Place] = {}
        """Where the user was in the model files before the current one."""
        self.target_files: tuple[str, ...] = ()
        """Target files given so far."""

    def action_rerun(self) -> None:
        if self.engine is not None and not self.engine.rerun():
            self._trace_only()

    def action_stop_run(self) -> None:
        if self._trace_only():
            return
        newest = self.session.newest
        if self.engine is None or newest is None or newest.status != "running":
            self.main.say(f"Nothing is running: {hint('run-again')} runs the file again.")
            return
        self.engine.stop_run()
        if newest.phase == "timing":
            self.main.say(
                f"Timing of run {newest.run} has ended; its results are kept. {hint('run-again')} runs the file again."
            )
        else:
            self.main.say(f"Run {newest.run} is stopped. {hint('run-again')} runs the file again.")

    def action_step(self, by: int) -> None:
        shown = self.session.shown
        if shown is not None:
            self._show_run(self.session.number_at(shown.run if self._read_next is None else self._read_next, by))

    def on_newest_requested(self) -> None:
        if self.session.pinned is not None:
            self.action_newest()

    def action_newest(self) -> None:
        if self.session.newest is not None:
            self._show_run(self.session.newest.run)

    def _show_run(self, number: int) -> None:
        """Bring a run into view, after reading it if it is on disk."""
        stored = self.session.stored(number)
        if stored is None or self.history is None:
            self._read_next = None
            self.session = self.session.go_to(number)
            return
        self._read_next = number
        self.run_worker(self._read_run(self.history, stored), group="history", exit_on_error=False)

    async def _read_run(self, history: RunHistory, stored: StoredRun) -> None:
        """Read a run, and bring it into view unless the user has gone to another one meanwhile."""
        from tcexplore.run_store import UnreadableRunError

        try:
            snapshot = await history.read(stored)
        except UnreadableRunError as error:
            self.main.say(f"The run of {stored.summary.past} is lost: {error}.", "warning")
            self.session = self.session.without_packed(stored.run)
            self._read_next = None
            self._needed.discard(stored.run)
            return
        needed = stored.run in self._needed
        self._needed.discard(stored.run)
        if self._read_next == stored.run:
            self._read_next = None
            self.session = self.session.unpacked(snapshot).go_to(stored.run)
        elif needed:
            self.session = self.session.unpacked(snapshot)

    def on_run_needed(self, message: RunNeeded) -> None:
        """Unpack a run, or read it from disk, for a screen that compares it."""
        stored = self.session.stored(message.run)
        if stored is None:
            self.session = self.session.unpack(message.run)
        elif self.history is not None and message.run not in self._needed:
            self._needed.add(message.run)
            self.run_worker(self._read_run(self.history, stored), group="history", exit_on_error=False)

    def action_base(self) -> None:
        self.session = self.session.toggle_baseline()

    def _ask(self, prompt: Prompt, answered: Callable[[str], None]) -> None:
        """Ask for one line, and pass on the answer unless the user leaves."""
        from tcexplore.ui.screens.prompt_screen import PromptScreen

        self.push_screen(PromptScreen(prompt), lambda answers: answered(answers[0]) if answers else None)

    def action_ask_calls(self) -> None:
        from tcexplore.documents.verdicts import recommend
        from tcexplore.studies.study import Prompt, PromptField
        from tcexplore.ui.screens.prompt_screen import parse_calls

        current = self.session.expected_calls
        value = "" if current is None else str(current)
        timing = self.session.shown.timing if self.session.shown is not None else None
        unit = timing.unit if timing is not None else "call"
        field = PromptField(f"Number of {unit}s? Empty for any number", value, parse_calls)
        prompt = Prompt("Does compiling pay off?", (field,), "The answer is also in the timing pane (6).")

        def answered(answer: str) -> None:
            calls = parse_calls(answer)
            self.session = self.session.set_expected_calls(calls)
            if calls is not None and self.session.shown is not None:
                self.main.say(recommend(self.session.shown, calls) or "There is no verdict so far.")

        self._ask(prompt, answered)

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
        if GUARD_FILTERS_LINK in message.links:
            self._try_guard_filters()
            return
        newest = self.session.newest
        if newest is not None and newest.status == "running" and not newest.complete:
            self._fix_awaited = newest.run, tuple(message.links), self._inputs
            self.main.say("Not all graph breaks are known yet: the fix opens once the run is over.")
            return
        screen = self._fix_screen(message.links)
        if isinstance(screen, str):
            self.main.say(screen)
        else:
            self.push_screen(screen)

    def _open_awaited_fix(self, newest: Snapshot) -> None:
        """Open the fix that the user asked for while the run was under way, if the user has only waited since.

        Else say that it is ready: a screen that opens by itself would take the next keys.
        """
        if self._fix_awaited is None or (newest.run == self._fix_awaited[0] and not newest.complete):
            return
        (run, links, inputs), self._fix_awaited = self._fix_awaited, None
        if run != newest.run or newest.failure is not None:
            return
        if self.screen is self.main and inputs == self._inputs:
            self.call_later(self.on_fix_requested, FixRequested(links))
        else:
            self.main.say(f"All graph breaks are known: {hint('fix')} shows the fix.")

    def _try_guard_filters(self) -> None:
        from tcexplore.studies.mode_variants import guard_filter_options

        newest = self.session.newest
        if newest is None or not newest.complete:
            self.main.say("The run is not over yet: its guards are not timed.")
        else:
            self._study("modes", guard_filter_options(newest.config))

    def on_study_measured(self, message: StudyMeasured) -> None:
        newest = self.session.newest
        if newest is not None and newest.run == message.job.run:
            for fact in message.facts:
                self.session = self.session.apply(replace(fact, run=newest.run))

    def on_step_requested(self, message: StepRequested) -> None:
        if self._trace_only():
            return
        from tcexplore.session.next_steps import next_steps

        newest = self.session.newest
        steps = next_steps(newest) if newest is not None else ()
        step = next((step for step in steps if step.key == message.step), None)
        if newest is None or step is None:
            self.main.say("The newest run gives no reason for this step.")
        elif not newest.complete:
            self.main.say("The run is not over yet.")
        elif step.trial == "fix":
            self.on_fix_requested(FixRequested(step.links))
        elif step.trial == "bisect":
            self._study("bisect")
        elif step.trial in ("run", "fixes"):
            from tcexplore.studies.next import NextOptions

            self._study("next", NextOptions(only=step.key, run=newest, step=step))
        else:
            from tcexplore.documents.timing.next_view import why_not_tried

            why = why_not_tried(step, newest)
            self.main.say(f"It cannot be tried: {why}. {hint('follow')} shows the evidence for it.")

    def _fix_screen(self, links: Sequence[Link]) -> FixScreen | str:
        """Return the screen that fixes the graph break of these links in the newest run, or why there is none."""
        run, engine = self.session.newest, self.engine
        if engine is None or engine.job is None or run is None or not run.complete:
            return "The run is not over yet: not all graph breaks are known."
        graph_break = break_of(run, links)
        if not run.breaks:
            return "No graph break."
        if graph_break is None:
            return f"Put the cursor on a graph break or on its line: {hint('next-break')} goes to the next one."
        from tcexplore.ui.screens.fix_screen import FixScreen

        return FixScreen(engine, engine.job, run, graph_break, self.undo, self._fixes, self._studies)

    def on_recompile_check_requested(self, message: RecompileCheckRequested) -> None:
        if self._trace_only():
            return
        from tcexplore.ui.screens.prompt_screen import recompile_prompt

        shown = self.session.shown
        answered_last = max((answer.number for answer in shown.recompile_answers), default=0) if shown else 0
        self._last_query = max(self._last_query, answered_last) + 1
        screen = recompile_prompt(self.session, message.links, self._send_query, self._last_query)
        if isinstance(screen, str):
            self.main.say(screen)
            return

        def answered(answers: tuple[str, ...] | None) -> None:
            if answers is not None:
                self._query_recompile(screen.query_for(answers))
            else:
                self.dropped_queries.add(screen.number)
                self.session = self.session.without_answer(screen.number)

        self.push_screen(screen, answered)

    def _send_query(self, query: RecompileQuery) -> bool:
        """Send a query to the current run; return whether it can answer."""
        return self.engine is not None and self.engine.send(query)

    def _query_recompile(self, query: RecompileQuery) -> None:
        from tcexplore.ui.screens.prompt_screen import ended

        self.main.show_view("guards", "check")
        if not self._send_query(query):
            self.main.say(ended(), "warning")
        else:
            self.session = self.session.with_query(query.number, query.inputs)

    def action_diff(self) -> None:
        from tcexplore.ui.screens.diff_screen import DiffScreen

        self._read_another_rank()
        self.push_screen(DiffScreen(self.session))

    def _read_another_rank(self) -> None:
        """Read another rank of a trace if only one is read, preferably one that differs."""
        if not isinstance(self.engine, RankEngine) or len(self.session.runs) != 1:
            return
        comparison = self.session.runs[0].rank_comparison
        if comparison is None:
            return
        differing = comparison.divergence.ranks if comparison.divergence is not None else ()
        ranks = (*differing, *(row.rank for row in comparison.rows))
        other = next((rank for rank in ranks if rank not in self.engine.runs), None)
        if other is not None:
            self.engine.load(other)

    def action_target(self) -> None:
        self._choose_target(self._retarget, "Target to generate code for")

    def on_machine_code_requested(self) -> None:
        """Show the machine code of the selected row, after asking for a target if there is none."""
        from tcexplore.documents.code.target_notes import LOCAL_CODE_LATER, awaits_local_code

        shown = self.session.shown
        if shown is not None and (shown.target != NATIVE or shown.code.assembled):
            self.main.show_assembly()
        elif shown is not None and awaits_local_code(shown):
            self.main.show_assembly()
            self.main.say(LOCAL_CODE_LATER)
        else:
            self._choose_target(self.show_stages, "Machine code for which target?", USUAL_GPU)

    def _choose_target(self, choose: Callable[[TargetChoice], None], title: str, at: str = "") -> None:
        if self._trace_only():
            return
        from tcexplore.ui.screens.target_screens import TargetScreen

        device = self.standby.device if self.standby is not None else ""
        self.push_screen(TargetScreen(self.session.shown, self.target_files, device, choose, title, at))

    def show_stages(self, choice: TargetChoice) -> None:
        """Generate code for a target, and show its stages, with the assembly of the selected row open."""
        if not self._trace_only():
            self._retarget(choice)
            self.main.show_assembly()

    def _retarget(self, choice: TargetChoice) -> None:
        """Show the code for the chosen device, at once if it has been generated."""
        shown, newest = self.session.shown, self.session.newest
        if shown is None or newest is None or self.engine is None:
            return
        self.chosen_targets[newest.file] = choice.named
        alive = self.engine.retarget(choice.named, known=newest.has_code(choice.key))
        self.session = self.session.with_target(choice.key)
        if shown.has_code(choice.key):
            self.main.grid.panes["code"].leave_empty_view()
        if not alive:
            self.main.say(f"Run {newest.run} has ended: a new run generates the code for {choice.key}.")
        elif not shown.has_code(choice.key) and shown is not newest:
            self.main.say(f"Run {shown.run} has ended without code for {choice.key}; the newest run generates it.")
        elif not shown.has_code(choice.key) and (task := self.studies.under_way) is not None:
            self.main.say(
                f"The timing of the study {task.study.title} waits for the code for {choice.key}."
                if task.waits_for_code
                else f"The code for {choice.key} is generated beside the study {task.study.title}, which takes longer."
            )

    def action_export(self, kind: str) -> None:
        """Save a screenshot (`svg`), or the run in view in another format, in the working directory."""
        from tcexplore.ui.user_files import render, save

        shown = self.session.shown
        if shown is None:
            self.main.say("No run to save yet.")
            return
        content = self.export_screenshot() if kind == "svg" else render(shown, kind, self.standby)
        self.main.say(save(content, shown, kind))

    def action_studies(self) -> None:
        """Let the user choose a study, or leave the menu."""
        from tcexplore.ui.screens.studies_screen import StudiesScreen

        if not self._trace_only():
            on_gpu = self.standby is not None and self.standby.device != "cpu"
            self.push_screen(StudiesScreen(self._run_studies_action, self.studies.newest(), on_gpu=on_gpu))

    def _run_studies_action(self, action: Action) -> None:
        """Run an action of the menu of studies, on the screen below it."""
        self.run_worker(self.run_action(action.run, self if action.scope == "app" else self.main), exit_on_error=False)

    def action_copy_id(self) -> None:
        """Copy the stable id of what the selected row of the main screen shows."""
        from tcexplore.session.stable_ids import link_id
        from tcexplore.ui.terminal_driver import copy

        row, shown = self.main.reader.cursor_row, self.session.shown
        known = link_id(shown, row.links[0]) if row is not None and row.links and shown is not None else ""
        self.main.say(copy(self, known) if known else "The row shows nothing that has an id.")

    def action_study(self, name: str) -> None:
        if not self._trace_only():
            self._study(name, self._counter_options() if name == "counters" else None)

    def _counter_options(self) -> object:
        """Return the options that count the kernels of the selected row; None if it has none."""
        from tcexplore.studies.counters import CounterOptions

        run, links = self.session.newest, set(self.main.selection.links)
        kernels = run.code.kernels if run is not None else ()
        names = [kernel.name for kernel in kernels if kernel.language == "triton" and kernel_link(kernel) in links]
        return CounterOptions(tuple(names)) if names else None

    def _study(self, name: str, options: object = None) -> None:
        """Open a study with these options, by default its usual ones."""
        if self.engine is None or self.session.newest is None:
            self.main.say("No run to study yet.")
            return
        if self._fixes is not None:
            self._fixes.stop()
        if message := open_study(self, name, self.engine, self.session.newest, self.studies, options):
            self.main.say(message)
        else:
            self.study_progress = ""

    @property
    def studies(self) -> Studies:
        """Those of the file, which go on while their screens are closed."""
        if self._studies is None:
            from tcexplore.ui.screens.study_screen import Studies

            self._studies = Studies(self._note_study)
        return self._studies

    def _note_study(self, task: StudyTask) -> None:
        """Show how far a study is whose screen is closed, and say when it is over."""
        self.study_progress = "" if task.state.over else f"{task.study.title} {task.status}"
        if task.state.over and self.is_running:
            self.main.say(f"{task.study.title} {task.status.rstrip('.')}. {hint('studies')} shows it.")

    def stop_study(self) -> None:
        """End the study that goes on without a screen, if there is one; its results are kept."""
        if self._studies is not None:
            self._studies.stop()

    def action_ranks(self) -> None:
        from tcexplore.ui.screens.ranks_screen import RanksScreen

        if isinstance(self.screen, RanksScreen):
            self.screen.leave()
            return
        runs = self.engine.runs if isinstance(self.engine, RankEngine) else {}
        self.push_screen(RanksScreen(self.session, lambda: runs, self._show_rank))

    def _show_rank(self, rank: int) -> str:
        """Show a rank of a trace, and read it first if necessary; return why it can't be shown."""
        if not isinstance(self.engine, RankEngine):
            return "Only a trace has ranks."
        run = self.engine.runs.get(rank)
        if run is not None:
            if any(snapshot.run == run for snapshot in self.session.runs):
                self.session = self.session.go_to(run)
            return ""
        return "" if self.engine.load(rank) else f"Rank {rank} has no trace."

    # ---- for the palette and clicks

    def on_run_chosen(self, message: RunChosen) -> None:
        if any(summary.run == message.run for summary in self.session.summaries):
            self._show_run(message.run)

    def configure(self, **arguments: Any) -> None:
        """Use these arguments of torch.compile from now on, and rerun."""
        newest = self.session.newest
        if self._trace_only() or self.engine is None or newest is None:
            return
        config = replace(newest.config, **arguments)
        self.engine.configure(config.mode, config.backend, config.dynamic, config.compile_arguments)

    def action_compile_arguments(self) -> None:
        """Ask for further arguments of torch.compile, and rerun with them."""
        if self.session.newest is None or self._trace_only():
            return
        from tcexplore.studies.study import Prompt, PromptField
        from tcexplore.ui.screens.prompt_screen import parse_arguments

        value = shlex.join(self.session.newest.config.compile_arguments)
        field = PromptField("NAME=VALUE, separated by spaces; empty for none", value, parse_arguments)
        note = "recompile_limit=4  isolate_recompiles=True  name=block  \"dynamic_shapes={'x': ['batch', None]}\""
        prompt = Prompt("Further arguments of torch.compile?", (field,), note)

        self._ask(prompt, lambda answer: self.configure(compile_arguments=parse_arguments(answer)))

    def compile_name(self, name: str | None) -> None:
        """Compile another function of the file, or what its own rules select, and rerun."""
        if not self._trace_only() and self.engine is not None:
            self.engine.compile_name(name)

    def open_file(self, file: str) -> None:
        """Explore another file in a new session."""
        if self._trace_only() or self.engine is None:
            return
        if self._fixes is not None:
            self._fixes.stop()
        if self.history is not None:
            self.run_worker(self.history.store(self.session, newest=True), group="store", exit_on_error=False)
        if self._studies is not None:
            self._studies.clear()
        self.session = Session()
        self.left_places[self.file] = self.main.grid.place
        self.file = os.path.abspath(file)
        place = self.left_places.get(self.file) or self.remembered.place_in(self.file)
        self.main.grid.go_to(place)
        target = self.chosen_targets.get(self.file) or self.remembered.target_of(self.file)
        self.engine.open_file(file, target)
        self.open_history(file)

    def open_history(self, file: str) -> None:
        """Add the runs of earlier starts to the session."""
        if self.history_of is not None:
            self.history = self.history_of(file)
            self.run_worker(self._list_history(self.history), group="history", exit_on_error=False)

    async def _list_history(self, history: RunHistory) -> None:
        stored = await history.earlier_runs()
        if history is not self.history:
            return
        self.session = self.session.with_stored(stored.runs)
        if stored.unreadable:
            runs = count(stored.unreadable, "run")
            self.main.say(f"{runs} of the history can't be read: damaged, or from another version of tcexplore.")

    def show_target(self, choice: TargetChoice) -> None:
        """Show the code for a device, unless a trace is in view."""
        if not self._trace_only():
            self._retarget(choice)


def open_study(
    app: App[Any], name: str, engine: Engine, own: Snapshot, studies: Studies, options: object = None
) -> str:
    """Open a study of the model file, whose newest run is `own`; return why it can't be opened, or an empty string.

    An open study is replaced, since two would disturb each other. The key of an open study closes it.
    """
    from tcexplore.studies.study import load_study
    from tcexplore.ui.screens.study_screen import StudyContext, StudyScreen

    screen = app.screen
    if isinstance(screen, StudyScreen) and screen.study.name == name:
        screen.leave()
        return ""
    study = load_study(name)
    if engine.job is None:
        return "The file has not been run yet."
    job = engine.job
    if own.captured_calls and not study.studies_scripts:
        job = replace(job, config=replace(job.config, region=str(own.captured_calls[0].region)))
    if own.entry is None and own.status == "running":
        return "The model and its inputs are not known yet. Try again in a moment."
    new = _make_screen(study, StudyContext(engine, job, own, studies), options)
    if isinstance(screen, StudyScreen):
        app.switch_screen(new)
    else:
        app.push_screen(new)
    return ""


def _make_screen(study: Study[Any, Any], context: StudyContext, options: object) -> StudyScreen:
    """Return the screen of a study: most have no keys beyond those of all studies."""
    from tcexplore.ui.screens.study_screen import StudyScreen

    if study.name == "modes":
        from tcexplore.ui.screens.modes_screen import EnvironmentsScreen, ModesScreen

        several = options is None and len(context.engine.pythons) > 1
        return EnvironmentsScreen(context) if several else ModesScreen(context, options)
    if study.name == "bisect":
        from tcexplore.ui.screens.bisect_screen import BisectScreen

        return BisectScreen(study, context, options)
    return StudyScreen(study, context, options)
