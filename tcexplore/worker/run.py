"""One run, from its job to its last event."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from tcexplore.capture import compile_phases
from tcexplore.capture.captured_calls import CallCapture
from tcexplore.capture.compile_overrides import CompileArguments, CompileOverrides
from tcexplore.capture.compiled_regions import REGIONS_FACT, TRACE_RULES, FailedCall, Regions
from tcexplore.capture.dynamo.frame_entries import CompiledFrames, forget_frames
from tcexplore.capture.entry import Entry, EntryError, describe_call, function_of
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.inductor_trace import install_graph_scripts
from tcexplore.capture.inductor.unloaded_code import UnloadedCode
from tcexplore.capture.install_hooks import install_all
from tcexplore.capture.module_paths import name_modules
from tcexplore.capture.python_state import PythonState
from tcexplore.capture.region_queries import RegionQueries
from tcexplore.capture.step_signals import is_one_of_several_ranks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.time_limit import TimeLimitError, process_limit, time_limit, without_time_limit
from tcexplore.capture.user_files import UserFiles
from tcexplore.capture.user_ops import has_custom_ops
from tcexplore.capture.varied_calls import resize_calls, vary_calls
from tcexplore.events import (
    CallsRestarted,
    CompilerLoaded,
    EntryFound,
    Finished,
    ImportedAhead,
    Job,
    ModulesImported,
    RestartNeed,
    RunFact,
    SourceRead,
    StepSide,
    StepTimeline,
    TimingSkipped,
)
from tcexplore.events.commands import RecompileQuery
from tcexplore.timing.workload import Workload
from tcexplore.worker import early_imports, process_setup, recompile_trials, torch_settings
from tcexplore.worker.artifact_files import load_artifacts, save_artifacts, use_compiled_ahead
from tcexplore.worker.call_profiles import CallProfiles, ProfileStage
from tcexplore.worker.event_recorder import EventRecorder, RunProgress
from tcexplore.worker.examination import Examination, state_keys
from tcexplore.worker.failure import OptionalStages, describe_error, is_caused_by, locate_error, to_failed
from tcexplore.worker.link import Channel, CommandQueue
from tcexplore.worker.model_file import ModelFile, refuse_for_script, run_script
from tcexplore.worker.program import Program, ProgramCalls, ProgramState, user_state
from tcexplore.worker.recompile_queries import FACT as QUERIES
from tcexplore.worker.recompile_queries import SYMBOL as QUERY_SYMBOL
from tcexplore.worker.recompile_queries import RecompileQueries
from tcexplore.worker.recompile_trials import RecompileTrials
from tcexplore.worker.region_shapes import emit_shapes
from tcexplore.worker.regional_compile import emit_repeated_blocks, skip_guard_evaluation
from tcexplore.worker.script_entry import FileEntry, capture_limit, load_entry
from tcexplore.worker.target_codegen import TargetCodegen

if TYPE_CHECKING:
    from tcexplore.timing.step_timing import StepTiming
    from tcexplore.worker.numerics_stage import NumericsStage
    from tcexplore.worker.timing_process import TimingProcesses, TimingSeed

SAME_STATE = "eager calls from the state of the compiled ones"
NOT_SET_BACK = (
    "the compiled calls changed this state, and it cannot be set back: eager times and results, and what is compared "
    "with them, are of a later state"
)
"""Fact and reason of state that eager calls meet changed."""

IDLE_REPEATS = 2
"""Runs of a script in a row without a new pair, after which it does not run again."""

STRUCTURE_ONLY = "only the structure was asked for (--quick)"

AN_HOUR_S = 3600.0
"""Seconds to wait for a command, repeatedly until the front end ends the process."""


def run_job(job: Job, channel: Channel, threads: int, commands: CommandQueue, seed: TimingSeed | None = None) -> None:
    """Run a job and send its events; report any exception.

    `threads` is torch's default number on this machine; `seed` forks processes to time the program in.
    """
    run = Run(job, channel, threads, commands, seed)
    try:
        run.execute()
    except BaseException as error:  # noqa: BLE001  the user's program and the compiler may raise anything
        channel.send(to_failed(error, run.progress.stage, run.user_files, eager_works=run.calls.eager_works))
    else:
        channel.send(Finished())


class _RestartError(Exception):
    """The program cannot run without what it needs: the calls begin again with it."""

    def __init__(self, need: RestartNeed) -> None:
        super().__init__(need)
        self.need: RestartNeed = need


class Run:
    """The steps of one run."""

    _trace: StructuredTrace
    _frames: CompiledFrames
    """Set by `_install_observers`, and again if the calls begin again."""

    def __init__(
        self, job: Job, channel: Channel, threads: int, commands: CommandQueue, seed: TimingSeed | None = None
    ) -> None:
        self._seed = seed
        self._waited_s = 0.0
        """Seconds in which a script waited for studies and queries."""
        self.job = job
        self.user_files = UserFiles(job.file)
        self._recorder = EventRecorder(channel.send)
        self._emit = self._recorder.emit
        self._codegen = TargetCodegen(job, self._recorder, channel.send)
        self.progress = RunProgress(self._emit)
        self._threads = threads
        self._commands = commands
        self._loaded = frozenset(sys.modules) - early_imports.ahead.modules
        self._arrived = time.time() - self.progress.now()
        self._hooks = Hooks(self._emit)
        self._stages = OptionalStages(self._hooks, self.user_files)
        self._queries = RecompileQueries(self._hooks, self.user_files, job)
        self._arguments = CompileArguments()
        self._overrides = CompileOverrides(job.config)
        self._activity_timer = compile_phases.ActivityTimer()
        self.calls = ProgramCalls(job, self._hooks, self._stages, self._activity_timer)
        self._numerics = self._numerics_stage() if job.numerics else None
        self._eager_failure = ""
        """Why the program cannot be called eagerly."""

    def execute(self) -> None:
        """Import the file, find its entry, call it compiled, then eagerly, and time both."""
        # A .pyc file has a resolution of one second, within which a local module may change twice.
        sys.dont_write_bytecode = True
        if self.job.cold:
            gc.unfreeze()
        if "torch._inductor.compile_fx" in sys.modules:
            self._emit(CompilerLoaded())
        self._codegen.prepare()
        torch_settings.apply(self.job, self._threads, self._emit)
        if self.job.eager_ops:
            self._stages.run("ops that call eager's kernels", "torch._inductor.lowering", self._use_eager_kernels)
        self._install_observers()
        self._arguments.install(self._hooks)
        self._overrides.install(self._hooks)
        model_file = ModelFile(self.job)
        self.progress.enter("importing")
        if early_imports.ahead.packages:
            self._emit(ImportedAhead(packages=early_imports.ahead.packages, seconds=early_imports.ahead.seconds))
        if model_file.is_script and self.job.step_side is not None:
            self._record_steps(model_file, self.job.step_side)
        elif model_file.is_script and not self.job.config.region:
            self._run_script(model_file, model_file.script_rule)
        else:
            self._run_module(model_file)

    def _install_observers(self) -> None:
        """Install the hooks into torch that observe the compile."""
        trace = self._trace = install_all(self._hooks, self.user_files, probe=not self.job.cold)
        compile_phases.install(self._hooks, trace, self.progress.enter, self._arrived, self._activity_timer)
        self._codegen.install(self._hooks, self.user_files)
        if self.job.structure_only:
            UnloadedCode(self._hooks).install()
        if self.job.graph_scripts:
            install_graph_scripts(self._hooks, trace)
        if not self.job.caches:
            torch_settings.keep_caches_off(self._hooks)
        torch_settings.follow_threads(self._hooks)
        self._frames = CompiledFrames(trace)
        if self._numerics is not None:
            self._numerics.install()

    def _run_script(self, model_file: ModelFile, rule: str) -> None:
        refuse_for_script(self.job)
        self._emit(EntryFound(name="__main__", kind="script", rule=rule, calls=()))
        queryable = self.job.time_for is None or bool(self.job.recompile_queries)
        queries = RegionQueries(self.user_files) if queryable else None
        steps, captures = self._step_timing(), self._call_capture()
        regions = Regions(
            self._hooks, self.user_files, self.progress.now, queries, self._answer_queries,
            lambda: self._arguments.current, None if self.job.config.no_eager_steps else steps, captures,
        )  # fmt: skip
        regions.install(self._trace)
        steps.install()
        if queries is not None:
            self._queries.use_regions(queries)
        load_artifacts(self.job, self._hooks)
        if self._numerics is not None:
            self._numerics.record_script()
        try:
            with self._reporting_import():
                script = partial(model_file.run_as_script, steps.step_function)
                run_script(script, self.job.config.follow, regions.emit_calls, self._emit, lambda: self._waited_s)
                self._stages.run(REGIONS_FACT, TRACE_RULES, regions.emit_uncompiled)
                if captures is not None:
                    captures.close()
                if self.job.config.repeat and not self.job.structure_only:
                    self._repeat_script(script, regions, steps)
        except Exception as error:
            self._make_failed_call_eagerly(regions.failed_call, error)
            raise
        finally:
            steps.finish()
            if captures is not None:
                self._stages.run("sizes of calls", "tcexplore.worker.region_shapes", emit_shapes, captures, self._emit)
            self._hooks.run_deferred()
            self._emit_sources()
        self._stages.compiled = True
        if self._numerics is not None:
            self._numerics.close()
            self._judge_numerics(self._numerics.run_script)
        self._overrides.require_calls()
        save_artifacts(self.job, self._hooks)
        self._lower()
        self._assemble()
        self._stages.run(QUERIES, QUERY_SYMBOL, self._queries.answer_job)
        if self.job.structure_only:
            self._emit(TimingSkipped(reason=STRUCTURE_ONLY))
        elif captures is not None:
            self._examine_captured(captures, regions)
        self._answer_commands()

    def _call_capture(self) -> CallCapture | None:
        if not self.job.examine or self.job.structure_only or self.job.config.no_captured_calls:
            return None
        return CallCapture(capture_limit)

    def _examine_captured(self, captures: CallCapture, regions: Regions) -> None:
        """Make the captured calls again, and compare, time and profile both sides."""
        from tcexplore.worker.captured_stage import CapturedStage

        self._recorder.close_graphs()
        regions.close()
        stage = CapturedStage(
            self.job, self._hooks, self._recorder, self._stages, self._frames, self.user_files, self._loaded,
            pause=lambda: self._handle_commands(0), enter=self.progress.enter,
        )  # fmt: skip
        stage.run(captures, regions)

    def _record_steps(self, model_file: ModelFile, side: StepSide) -> None:
        """Run a script only to record its parameters after each step."""
        from tcexplore.numerics.step_values import StepValues

        refuse_for_script(self.job)
        self._emit(EntryFound(name="__main__", kind="script", rule=model_file.script_rule, calls=()))
        values = StepValues(self._hooks, side, self.job.steps, self.job.config.seed, self.job.steps_for)
        regions = Regions(self._hooks, self.user_files, self.progress.now, steps=values)
        regions.install(self._trace)
        values.install()
        try:
            with self._reporting_import():
                script = partial(model_file.run_as_script, lambda function: function)
                run_script(script, self.job.config.follow, regions.emit_calls, self._emit)
        finally:
            values.finish()
            self._emit_sources()
        self._stages.compiled = True
        self._answer_commands()

    def _repeat_script(self, script: Callable[[], object], regions: Regions, steps: StepTiming) -> None:
        """Run the script again until there are enough steps for a verdict, within its time limit."""
        limit, idle = self.job.config.follow, 0
        while steps.needs_steps and idle < IDLE_REPEATS:
            left = limit - self.progress.now()
            if limit and left <= 0:
                break
            before = steps.pairs
            torch.compiler.reset()  # else entries of the runs before count towards the limit of recompiles
            steps.script_again()
            regions.script_again()
            try:
                with self._hooks.silenced():  # what it compiles is what the first run compiled
                    run_script(script, left if limit else 0, regions.emit_calls, lambda _: None)
            except Exception as error:  # noqa: BLE001  the script may refuse to run twice
                message, _ = describe_error(error, self.user_files)
                self._hooks.report_missing("another run of the script", "--repeat", message)
                break
            idle = 0 if steps.pairs > before else idle + 1

    def _step_timing(self) -> StepTiming:
        from tcexplore.timing.step_timing import StepTiming

        config = self.job.config
        alternate = not (config.no_eager_steps or self.job.structure_only)
        return StepTiming(
            self._hooks, user_files=self.user_files if self.job.examine else None, time_for=self.job.time_for,
            function=config.step, alternate=alternate,
            entered=partial(self.progress.enter, "timing"),
            # A run of a study waits for its turn. In the app, a script waits between calls: see `_answer_queries`.
            wait=(lambda: None) if self.job.time_for is None else partial(self._handle_commands, 0.0),
            timeline=self._step_timeline if self.job.examine else None, front_end=process_setup.front_end,
        )  # fmt: skip

    def _step_timeline(self, profile: bytes) -> StepTimeline:
        """Return the timeline of the median step in a Chrome trace of warm steps."""
        from tcexplore.profiles.step_timeline import timeline_of_run

        texts = {self.job.file: self.job.source}
        return timeline_of_run(profile, [*self._recorder.kernels, *self._recorder.graphs], texts)

    def _make_failed_call_eagerly(self, call: FailedCall | None, error: Exception) -> None:
        """Make the call of a region that ended the script eagerly, to tell whose fault it is.

        If it raises an exception, too, that one is the failure.
        """
        if call is None or not is_caused_by(error, call.error):
            return
        stage = self.progress.stage
        self.progress.enter("eager")
        limit = self._stages.limit_s
        try:
            with self._hooks.paused(), process_limit(limit), time_limit(limit):
                call.make_eagerly()
        except TimeLimitError:
            pass
        except Exception as eager_error:
            with self._hooks.paused(), process_limit(limit), time_limit(limit):
                locate_error(eager_error, call.make_eagerly, self.user_files, error)
            raise eager_error from None
        else:
            self.calls.eager_works = True
        self.progress.stage = stage

    def _answer_commands(self) -> None:
        """Handle the commands that have arrived; in the app, wait for more until it ends this process."""
        self._handle_commands(0)
        if self.job.time_for is None:
            self.progress.enter("answering")
            while True:
                self._handle_commands(AN_HOUR_S)

    def _run_module(self, model_file: ModelFile) -> None:
        dynamo = torch_settings.DynamoSettings() if self.job.baseline is not None else None
        with self._reporting_import():
            loaded = self._load(model_file)
        if loaded is None:
            self._run_again_as_script(model_file)
            return
        module, entry = loaded
        self._emit_entry(entry)
        program, imported = self._prepare(entry, module)
        examination = self._call(program, module)
        if self.job.marked_call:
            from tcexplore.worker.counters_stage import make_marked_call

            make_marked_call(program)
            self._assemble()
            return
        self._examine(program, examination)
        if entry.unpadded:
            self._stages.run("results with padding", "torch:cat", self._emit_padding, program)
        if self.job.passes > 1:
            self._emit(TimingSkipped(reason="the calls were repeated instead"))
        elif self.job.structure_only:
            self._emit(TimingSkipped(reason=STRUCTURE_ONLY))
            self._answer_commands()
        elif self._codegen.uncompiled:
            self._emit(TimingSkipped(reason="; ".join(self._codegen.uncompiled)))
            self._answer_commands()
        elif self._eager_failure:
            self._emit(TimingSkipped(reason=self._eager_failure))
        elif dynamo is None:
            self._stages.run(RunFact.TIMING, "tcexplore.timing", self._time, program, examination.restore, limit_s=0)
        else:
            self._compare_with_baseline(program, imported, dynamo)
        if self.job.try_recompile_fixes and self._recorder.recompiled:
            trials = RecompileTrials(
                program, self.job.config, module, self._hooks, self.user_files, examination.restore
            )
            limit = 2 * recompile_trials.BUDGET_S
            self._stages.run(recompile_trials.FACT, recompile_trials.SYMBOL, trials.run, limit_s=limit)

    def _load(self, model_file: ModelFile) -> FileEntry | None:
        """Run the file and return its entry; None if it has none, but compiled something.

        A library that it calls may do that, as `generate` of `transformers` does with a static cache.
        """
        try:
            module, entry = load_entry(model_file, self.user_files)
        except EntryError:
            if self._frames.graphs and model_file.may_be_script:
                return None
            raise
        if own := self._arguments.of(entry.compiled):
            note = f"Its arguments to torch.compile: {', '.join(own)}."
            entry = replace(entry, notes=(*entry.notes, note), arguments=own)
        return FileEntry(
            module, vary_calls(resize_calls(entry, self.job.config.dim, self.job.config.sizes), self.job.config)
        )

    def _run_again_as_script(self, model_file: ModelFile) -> None:
        """Run a file that was imported, and is found to be a script."""
        self._forget("script")
        self._arguments.install(self._hooks)
        self._overrides.install(self._hooks)
        self._run_script(model_file, "it has no model, and compiled something when it ran")

    def _prepare(self, entry: Entry, module: ModuleType) -> tuple[Program, PythonState | None]:
        """Return the program, and its Python state after the import if the run compares with a baseline."""
        self.progress.stage = "arguments"
        self.user_files.adopt(function_of(entry.target))
        load_artifacts(self.job, self._hooks)
        program = Program(entry, self.job.config, module, self._hooks.paused)
        name_modules(program.module)
        emit_repeated_blocks(program.module, self._emit)
        if self.job.baseline is None:
            return program, None
        return program, user_state(program.module, module, self.user_files, self._loaded)

    def _call(self, program: Program, module: ModuleType) -> Examination:
        """Call the program compiled, then eagerly from the same state; return its examination."""
        state = self._program_state(program, module)
        while True:
            try:
                return self._make_calls(program, state)
            except _RestartError as restart:
                self._restart(program, state, restart.need)

    def _program_state(self, program: Program, module: ModuleType) -> ProgramState | None:
        """Return the state before the calls; None if it cannot be read, since objects of the program raise."""
        try:
            return ProgramState(program, module, self.user_files, self._loaded)
        except Exception as error:  # noqa: BLE001  the program's own attributes may raise anything
            message, _ = describe_error(error, self.user_files)
            self._hooks.report_missing(SAME_STATE, type(error).__name__, f"the state cannot be read: {message}")
            return None

    def _make_calls(self, program: Program, state: ProgramState | None) -> Examination:
        """Make the compiled calls first, as in a plain script, then the eager ones."""
        self.calls.emit_grad_mode(program)
        self.progress.enter("dynamo")
        examination = Examination(
            program, self._hooks, self._recorder, self._stages, self._frames, lambda: self._restore(program, state),
            self.user_files if self.job.explain_memory else None,
        )  # fmt: skip
        try:
            with self._activity_timer.watching(self._hooks):
                use_compiled_ahead(program, self.job, self._emit)
                self.calls.make_compiled(program, self._frames)
        except Exception:
            self._hooks.run_deferred()
            stage = self.progress.stage
            self._restore(program, state)
            self._call_eagerly(program)
            self._check_custom_ops(program)  # torch 2.15 raises where a fake implementation differs
            self.progress.stage = stage
            raise
        examination.note_compiled()
        self._hooks.run_deferred()
        if self._numerics is not None:
            self._numerics.close()
        self._recorder.close_graphs()
        self._emit_modules()
        self._emit_sources()
        if self.job.structure_only:
            self._restore(program, state)
            self._stages.compiled = True
            return examination
        if changed := self._restore(program, state):
            self._hooks.report_missing(SAME_STATE, ", ".join(changed), NOT_SET_BACK)
        self._call_eagerly(program)
        self._restore(program, state)
        self._stages.compiled = True
        return examination

    @staticmethod
    def _restore(program: Program, state: ProgramState | None) -> tuple[str, ...]:
        """Set inputs and state back; return the paths of what cannot be set back."""
        if state is not None:
            return state.restore()
        program.restore()
        return ()

    def _call_eagerly(self, program: Program) -> None:
        """Make the eager calls, which also tell whose fault a failure is.

        Raise `_RestartError` if the program needs gradients, or a GPU that the target has.
        """
        self.progress.enter("eager")
        try:
            self.calls.make_eager(program, self._frames)
        except torch.OutOfMemoryError as error:
            self._eager_failure = f"the eager call ran out of memory: {error}"
        except Exception as error:
            if self.calls.needs_gradients(program, error):
                raise _RestartError("gradients") from error
            if self._codegen.lacks_target(error):
                raise _RestartError("target") from error
            limit = self._stages.limit_s
            with process_limit(limit), time_limit(limit):
                locate_error(error, lambda: program.call_all(program.eager), self.user_files)
            raise error from None

    def _check_custom_ops(self, program: Program) -> None:
        if has_custom_ops() and not self._eager_failure:
            self._stages.run("checks of custom ops", "torch.library:opcheck", self.calls.check_custom_ops, program)
            program.restore()

    def _restart(self, program: Program, state: ProgramState | None, need: RestartNeed) -> None:
        """Forget the calls so far, and let the program have what it needs."""
        self._restore(program, state)
        self._forget(need)
        if need == "gradients":
            program.grad = True
        else:
            self._codegen.answer_as_target(self._hooks, self.user_files)

    def _forget(self, need: RestartNeed) -> None:
        """Forget what was observed, and observe again."""
        self._hooks.remove()
        self._trace.remove()
        forget_frames()
        self._recorder.forget()
        self._emit(CallsRestarted(need=need))
        self._install_observers()

    def _examine(self, program: Program, examination: Examination) -> None:
        """Emit what the state of the process after the calls shows."""
        if not self.job.structure_only:
            self._check_custom_ops(program)
        skip_guard_evaluation(self.job.config)
        save_artifacts(self.job, self._hooks)
        self._stages.run("names in the state dict", "torch.nn:Module.state_dict", self._emit_state_keys, program)
        self._queries.use_program(program, self._frames.graphs)
        process_setup.discard_output()
        self._stages.run(QUERIES, QUERY_SYMBOL, self._queries.answer_job)
        self._lower()
        if self._numerics is not None and not self.job.structure_only:
            self._judge_numerics(partial(self._numerics.run, program, self._frames, examination.restore))
        if self.job.examine and not (self._codegen.uncompiled or self._eager_failure or self.job.structure_only):
            self.progress.enter("accuracy")
            examination.emit_accuracy()
            if self.job.baseline is None or self.job.baseline_config is not None:  # a fix is not judged by its memory
                examination.emit_memory()
        if self.job.baseline_config is None:  # a trial of a setting is asked for its time only
            self._assemble()

    def _use_eager_kernels(self) -> None:
        from tcexplore.numerics.eager_kernels import use_eager_kernels

        use_eager_kernels(self.job.eager_ops)

    def _numerics_stage(self) -> NumericsStage:
        from tcexplore.worker.numerics_stage import NumericsStage

        return NumericsStage(self.job, self._hooks, self.user_files, self._recorder)

    def _judge_numerics(self, judge: Callable[[], None]) -> None:
        from tcexplore.worker.numerics_stage import FACT, LIMIT_S, SYMBOL

        self.progress.enter("accuracy")
        self._stages.run(FACT, SYMBOL, judge, limit_s=LIMIT_S)

    def _time(self, program: Program, restore: Callable[[], object]) -> None:
        """Time the program and profile its calls; `restore` sets its state back to that before its first call."""
        from tcexplore.timing.device_facts import CLOCKS, emit_device_facts
        from tcexplore.timing.timing_run import measure_timing

        workload = program.workload(self.calls.mutates)
        if self.calls.eager_compiles:
            self._stages.run(RunFact.TIMING, "tcexplore.timing", program.call_all, program.eager)
            program.restore()
        self._stages.run(CLOCKS, "pynvml", emit_device_facts, workload.device, self._hooks)
        self.progress.enter("timing")
        self._handle_commands(0)  # waits while timing is paused: also the warm-up needs a quiet machine
        seconds = self.job.time_for
        # An undecided timing is extended twice, to twice the time each.
        limit = 0.0 if seconds is None else self._stages.limit_s + 8 * seconds
        profiles = CallProfiles(
            self.job, self._hooks, self._stages, self._frames, self._recorder, self.user_files, restore=restore
        )  # fmt: skip
        profile = ProfileStage(profiles, program, workload)
        pause = self._handle_commands if seconds is not None else profile.between_pairs(self._handle_commands)
        others = self._other_processes(program, workload)
        run = partial(
            measure_timing, workload, self._emit, seconds, pause, others, profile.may_time,
            front_end=process_setup.front_end, rests=self.job.timing_rests,
        )  # fmt: skip
        self._stages.run(RunFact.TIMING, "tcexplore.timing", run, limit_s=limit)
        profile.run()

    def _other_processes(self, program: Program, workload: Workload) -> TimingProcesses | None:
        """Return the processes to time beside this one; None where a run cannot be forked."""
        from tcexplore.worker.timing_process import FACT, SYMBOL, TimingProcesses

        if self._seed is None or workload.device.type not in ("cpu", "cuda") or self.job.load_artifacts:
            return None
        return TimingProcesses(
            self._seed, self.job, grad=program.grad, mutates=self.calls.mutates, device=workload.device,
            limit_s=self._stages.limit_s, report=partial(self._hooks.report_missing, FACT, SYMBOL),
        )  # fmt: skip

    def _compare_with_baseline(
        self, program: Program, imported: PythonState | None, dynamo: torch_settings.DynamoSettings
    ) -> None:
        """Compare a changed file with its baseline, instead of eager with compiled.

        `imported` and `dynamo` are the program's Python state and Dynamo's settings right after and before its import.
        """
        from tcexplore.worker.baseline import Baseline, compare_with_baseline

        self.progress.enter("comparing")
        self._overrides.use(self.job.baseline_config or self.job.config)
        with self._hooks.silenced():
            baseline = Baseline(self.job, self.user_files, self._loaded, dynamo)
        compare_with_baseline(
            baseline, program, imported, self.calls.mutates, self._hooks, self.job.time_for, self._other_processes
        )

    def _lower(self, target: str | None = None) -> None:
        """Generate code for the job's target, or for another one."""
        lower = self._codegen.lower if target is None else partial(self._codegen.retarget, target)
        self._stages.run("code for the target", "tcexplore.targets", lower, self.progress.enter)

    def _assemble(self) -> None:
        self._stages.run(RunFact.MACHINE_CODE, "triton:compile", self._codegen.finish, self.progress.enter)
        if self.job.counted_kernels:
            from tcexplore.worker import counters_stage

            count = partial(counters_stage.count_kernels, self.job, self._recorder)
            self._stages.run(RunFact.COUNTERS, counters_stage.SYMBOL, count, limit_s=counters_stage.LIMIT_S)

    # ---- commands

    def _answer_queries(self) -> None:
        """Answer recompile queries while the script goes on; in the app, let it wait while timing is paused.

        A study beside a script that uses all cores takes several times as long. Other ranks would wait in vain.
        """
        wait = self.job.time_for is None and not is_one_of_several_ranks()
        began = time.perf_counter()
        with without_time_limit():
            for query in self._commands.queries(wait=wait):
                self._queries.answer(query)
        self._waited_s += time.perf_counter() - began

    def _handle_commands(self, seconds: float) -> bool:
        """Wait up to `seconds` for a command, and handle all that have arrived; return whether there was one."""
        command = first = self._commands.wait(seconds)
        while command is not None:
            if isinstance(command, RecompileQuery):
                self._stages.run(QUERIES, QUERY_SYMBOL, self._queries.answer, command)
            else:
                phase = self.progress.phase
                self._lower(command.target)
                if phase is not None:
                    self.progress.enter(phase)
            command = self._commands.wait()
        return first is not None

    # ---- facts

    def _emit_state_keys(self, program: Program) -> None:
        keys = None if program.module is None else state_keys(program.module, program.compiled)
        if keys is not None:
            self._emit(keys)

    def _emit_padding(self, program: Program) -> None:
        from tcexplore.accuracy.padded_inputs import check_padding

        with self._hooks.silenced():
            comparison = check_padding(program.subject(), program.entry.unpadded, program.entry.calls)
        self._hooks.emit(comparison)

    def _emit_entry(self, entry: Entry) -> None:
        self._emit(
            EntryFound(
                name=entry.name, kind=entry.kind, rule=entry.rule, location=entry.location, notes=entry.notes,
                calls=tuple(describe_call(call) for call in entry.calls), arguments=entry.arguments,
            )
        )  # fmt: skip

    def _emit_sources(self) -> None:
        for file, text in self.user_files.sources():
            self._emit(SourceRead(file=file, text=text))

    @contextmanager
    def _reporting_import(self) -> Iterator[None]:
        """Emit facts on the import of the file inside the context, also if it fails."""
        environment = dict(os.environ)
        try:
            yield
        finally:
            process_setup.reopen_stdio()
            self._emit_modules()
            torch_settings.report_late_variables(environment, self._emit)

    def _emit_modules(self) -> None:
        self._emit(ModulesImported(files=self.user_files.imported(since=self._loaded)))
