"""One run, from its job to its last event."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from tcexplore.capture import compile_phases as phases
from tcexplore.capture.compile_phases import ActivityTimer
from tcexplore.capture.dynamo import break_costs
from tcexplore.capture.dynamo.frame_entries import CompiledFrames
from tcexplore.capture.entry.entry import Entry
from tcexplore.capture.entry.entry_inputs import describe_call
from tcexplore.capture.entry.find_entry import find_entry
from tcexplore.capture.entry.varied_calls import resize_calls, vary_calls
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.inductor_trace import install_graph_scripts
from tcexplore.capture.install_hooks import install_all
from tcexplore.capture.regions.compiled_regions import Regions
from tcexplore.capture.regions.region_queries import RegionQueries
from tcexplore.capture.state_dict_keys import state_keys
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    CallMade,
    EntryFound,
    Finished,
    Job,
    ModulesImported,
    SourceRead,
    TimingSkipped,
)
from tcexplore.events.commands import RecompileQuery
from tcexplore.timing.workload import Workload
from tcexplore.worker import artifact_files as artifacts
from tcexplore.worker import process_setup as process
from tcexplore.worker import torch_settings as settings
from tcexplore.worker.command_queue import CommandQueue
from tcexplore.worker.dynamo_settings import DynamoSettings
from tcexplore.worker.event_recorder import Heard
from tcexplore.worker.examination import Examination
from tcexplore.worker.failure import failed
from tcexplore.worker.link import Channel
from tcexplore.worker.model_file import ModelFile
from tcexplore.worker.program import Program
from tcexplore.worker.recompile_queries import RecompileQueries
from tcexplore.worker.run_phase import Progress
from tcexplore.worker.script_runner import follow
from tcexplore.worker.target_codegen import TargetCodegen

AN_HOUR_S = 3600.0
"""A wait for orders that never has to end: the process goes with the front end."""


def run_job(job: Job, channel: Channel, threads: int, orders: CommandQueue) -> None:
    """Do what the job asks for and say everything about it; raises nothing. `threads` is the machine's own number."""
    one = Run(job, channel, threads, orders)
    try:
        one.do()
    except BaseException as error:
        channel.emit(failed(error, one.progress.phase, one.project, eager_done=one.eager_done))
    else:
        channel.emit(Finished())


class Run:
    """The state of one run. `eager_done` tells that the user's code is known to run without the compiler."""

    def __init__(self, job: Job, channel: Channel, threads: int, orders: CommandQueue) -> None:
        self.job = job
        self._heard = Heard(channel.emit)
        self._beside = TargetCodegen(job, self._heard.emit)
        self.emit = self._beside.emit
        self.project = UserFiles(job.file)
        self.progress = Progress(self.emit)
        self.eager_done = False
        self._threads = threads
        self._orders = orders
        self._loaded = frozenset(sys.modules)
        self._hooks = Hooks(self.emit)
        self._asking = RecompileQueries(self._hooks, self.project, job)
        self._activity_timer = ActivityTimer()

    def do(self) -> None:
        """Import the file, find its entry, call it eagerly and compiled, time it."""
        # A local module may change twice within the one second that a .pyc file can tell apart.
        sys.dont_write_bytecode = True
        self._beside.get_ready()
        settings.apply(self.job, self._threads, self.emit)
        trace = self._trace = install_all(self._hooks, self.project)
        phases.install(self._hooks, trace, self.progress.enter, time.time() - self.progress.now(), self._activity_timer)
        self._beside.install(self._hooks, self.project)
        if self.job.graph_scripts:
            install_graph_scripts(self._hooks, trace)
        self._frames = CompiledFrames(trace)
        self._dynamo = DynamoSettings()
        source = ModelFile(self.job)
        self.progress.enter("importing")
        if source.is_script:
            self._script(source)
        else:
            self._module(source)

    def _script(self, source: ModelFile) -> None:
        self.emit(EntryFound(name="__main__", kind="script", rule="the file compiles something itself", calls=()))
        asked = self.job.time_for is None or bool(self.job.would)
        queries = RegionQueries(self.project) if asked else None
        regions = Regions(self._hooks, self.project, self.progress.now, queries, self._answer)
        regions.install(self._trace)
        if queries is not None:
            self._asking.about_regions(queries)
        try:
            follow(source.as_script, self.job.config.follow, regions.emit_calls, self.emit)
        finally:
            self._say_modules()
            self._say_sources()
        self._beside.lower(self.progress.enter)
        self._beside.finish(self.progress.enter)
        self._asking.answer_job()
        self.emit(
            TimingSkipped(reason="the script calls what it compiled itself: there is no eager form to compare with")
        )
        self._obey(0)
        if self.job.time_for is None:
            self.progress.enter("answering")
            while True:
                self._obey(AN_HOUR_S)

    def _answer(self) -> None:
        """Answer what was asked while the script goes on."""
        for question in self._orders.queries():
            self._asking.answer(question)

    def _module(self, source: ModelFile) -> None:
        config = self.job.config
        try:
            module = source.as_module()
            entry = vary_calls(
                resize_calls(find_entry(module, self.job, self.project), config.dim, config.sizes), config
            )
        finally:
            self._say_modules()
        self._say_entry(entry)
        self._explore(entry, module)

    def _explore(self, entry: Entry, module: ModuleType) -> None:
        self.progress.phase = "arguments"
        called = entry.target
        self.project.adopt(type(called).forward if isinstance(called, torch.nn.Module) else called)
        artifacts.load(self.job, self._hooks)
        program = Program(entry, self.job.config, module)
        self.progress.enter("eager")
        mutates = self._calls(program, "eager", program.eager)
        self.eager_done = True
        self.progress.enter("dynamo")
        examination = Examination(program, self._hooks, self._heard)
        with self._activity_timer.watching(self._hooks):
            for _ in range(self.job.passes):
                self._calls(program, "compiled", program.compiled)
        examination.compiled()
        artifacts.save(self.job, self._hooks)
        self._hooks.attempt("names in the state dict", "torch.nn:Module.state_dict", self._say_state, program)
        self._asking.about(program, self._frames.graphs)
        self._say_modules()
        self._say_sources()
        process.discard_output()
        self._asking.answer_job()
        self._beside.lower(self.progress.enter)
        if self.job.examine:
            self.progress.enter("accuracy")
            examination.report()
        self._beside.finish(self.progress.enter)
        if entry.unpadded:
            self._hooks.attempt("results with padding", "torch:cat", self._say_padding, program)
        if self.job.passes > 1:
            self.emit(TimingSkipped(reason="the calls were made several times over instead"))
        elif self.job.before is None:
            self._measure(program, mutates)
        else:
            self._compare(program, mutates)

    def _calls(self, program: Program, what: str, function: Callable[..., Any]) -> bool:
        """Every call once, in order; returns whether one changed its inputs."""
        mutates = False
        for index, call in enumerate(program.entry.calls):
            before, known = self._frames.count, len(self._frames.graphs)
            self._activity_timer.seconds.clear()
            started = time.perf_counter()
            program.call(function, call)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            seconds = time.perf_counter() - started
            compiles, graphs = self._frames.count - before, tuple(self._frames.graphs[known:])
            made = CallMade(index=index, variant=what, seconds=seconds, compiles=compiles, graphs=graphs)
            spent = self._activity_timer.seconds
            self.emit(
                replace(made, graph_seconds=spent["running"], frame_seconds=spent["frames"]) if compiles else made
            )
            mutates = mutates or bool(program.mutated())
            program.restore()
        return mutates

    def _measure(self, program: Program, mutates: bool) -> None:
        from tcexplore.timing.timing_run import measure

        workload = program.workload(mutates)
        self._hooks.attempt("ops outside every graph", "torch.profiler:profile", self._say_outside, workload)
        program.restore()
        self._hooks.attempt(break_costs.FACT, "torch.profiler:profile  ", self._say_costs, program)
        program.restore()
        self._hooks.attempt("where a call's time goes", "torch.profiler:profile ", self._say_call, workload)
        program.restore()
        self._hooks.attempt("clocks and driver of the device", "pynvml", self._say_device, workload)
        self.progress.enter("timing")
        measure(workload, self.emit, self.job.time_for, self._obey)

    def _compare(self, program: Program, mutates: bool) -> None:
        """A changed file beside what it was, in the place of compiled beside eager."""
        from tcexplore.worker.baseline import Before, compare_with_before

        self.progress.enter("comparing")
        with self._hooks.silenced():
            before = Before(self.job, self.project, self._loaded, self._dynamo)
        compare_with_before(before, program, mutates, self._hooks, self.job.time_for)

    def _obey(self, seconds: float) -> bool:
        """Wait for an order at most so long, and do what it and those behind it ask for; returns whether there was
        one."""
        order = first = self._orders.wait(seconds)
        while order is not None:
            if isinstance(order, RecompileQuery):
                self._asking.answer(order)
            else:
                resting = self.progress.phase
                self._beside.switch(order.target, self.progress.enter)
                self.progress.enter(resting)
            order = self._orders.wait()
        return first is not None

    def _say_state(self, program: Program) -> None:
        keys = None if program.module is None else state_keys(program.module, program.compiled)
        if keys is not None:
            self.emit(keys)

    def _say_padding(self, program: Program) -> None:
        from tcexplore.accuracy.padded_inputs import judge_padding

        with self._hooks.silenced():
            judged = judge_padding(program.subject(), program.entry.unpadded, program.entry.calls)
        self._hooks.emit(judged)

    def _say_outside(self, workload: Workload) -> None:
        from tcexplore.capture.dynamo.eager_ops import measure_eager_ops

        self.emit(measure_eager_ops(workload.alone(workload.compiled)))

    def _say_costs(self, program: Program) -> None:
        if self.job.examine and break_costs.any_graph_broke():
            self._hooks.emit(break_costs.measure_break_costs(program.unit, program.compiled, program.restore))

    def _say_call(self, workload: Workload) -> None:
        from tcexplore.capture.inductor.call_profile import profile_call

        if self.job.examine:
            heard, reset = self._heard, workload.reset or (lambda: None)
            for event in profile_call(workload.alone(workload.compiled), reset, heard.kernels, heard.wrappers):
                self._hooks.emit(event)

    def _say_device(self, workload: Workload) -> None:
        from tcexplore.timing.device_facts import device_facts, why_unknown

        found = device_facts(workload.device)
        if found is None:
            return
        self._hooks.emit(found)
        if said := why_unknown(workload.device):
            self._hooks.report_missing("clocks and driver of the device", "pynvml", said)

    def _say_entry(self, entry: Entry) -> None:
        calls = tuple(describe_call(call) for call in entry.calls)
        self.emit(
            EntryFound(
                name=entry.name,
                kind=entry.kind,
                rule=entry.rule,
                calls=calls,
                location=entry.location,
                notes=entry.notes,
            )
        )

    def _say_sources(self) -> None:
        for file, text in self.project.sources():
            self.emit(SourceRead(file=file, text=text))

    def _say_modules(self) -> None:
        self.emit(ModulesImported(files=self.project.imported(since=self._loaded)))
