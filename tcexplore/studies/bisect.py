"""The bisect study: add compiler stages one by one until a run fails or differs from eager."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from tcexplore.argument_types import force_option
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import FAITHFUL_VERDICTS, describe_accuracy, format_errors
from tcexplore.events import Failed, Job
from tcexplore.events.run_events import BEFORE_COMPILE
from tcexplore.files import NotWrittenError
from tcexplore.keymap import hint
from tcexplore.report.json_report import accuracy_fields, configuration, failure
from tcexplore.session import Snapshot
from tcexplore.studies.reproducer import unused_folder, write_reproducer
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.timed_cells import compiles_at_once

SCRIPT_NOT_COMPARED = "a script has no eager form to compare with"
NO_COMPARISON = "the run ended before eager and compiled were compared"


@dataclass(frozen=True, slots=True)
class BisectStage:
    """A compiler stage, and how to run a program with it as the last one."""

    name: str
    backend: str | None
    """The backend of torch.compile; None without a compiler."""
    fuse: bool = True
    """Whether Inductor fuses nodes."""
    mode: str = "default"
    adds: str = ""
    """What it adds to the stage before it."""


OWN_CALL = BisectStage("the script's own arguments", None, adds="the arguments of its calls of torch.compile")
"""The last stage of a script: nothing is replaced."""

EAGER = BisectStage("your own code", None, adds="no compiler")

STAGES = (
    EAGER,
    BisectStage("Dynamo", "eager", adds="Dynamo's graphs, guards and bytecode, run op by op"),
    BisectStage("AOTAutograd", "aot_eager", adds="functionalization and the joint graph, run op by op"),
    BisectStage(
        "decompositions and partitioner", "aot_eager_decomp_partition", adds="Inductor's decompositions, run op by op"
    ),
    BisectStage(
        "Inductor's lowering and code generation", "inductor", fuse=False, adds="generated kernels, one for each node"
    ),
    BisectStage("Inductor's fusion", "inductor", adds="fused kernels"),
)


@dataclass(frozen=True, slots=True)
class BisectStep:
    """A stage that was tried."""

    stage: BisectStage
    run: Snapshot

    @property
    def failed(self) -> Failed | None:
        """Return the failure of the run; for eager, only one that does not involve the compiler."""
        failed = self.run.failure
        if failed is None or self.run.is_script:
            return failed
        if self.stage is EAGER and failed.stage not in BEFORE_COMPILE:
            return None
        return failed

    @property
    def wrong(self) -> str:
        """Return the verdict on the result if it is not a good one; empty otherwise."""
        verdict = self.run.accuracy.verdict if self.run.accuracy is not None and self.stage is not EAGER else ""
        return "" if verdict in (*FAITHFUL_VERDICTS, "not judged") else verdict

    @property
    def fails(self) -> bool:
        """Return whether the run crashes or has a wrong result."""
        return bool(self.failed or self.wrong)

    @property
    def failure(self) -> str:
        """Return the stage and what fails in it, on one line; for a step that fails."""
        if self.failed is not None:
            return f"{self.stage.name}: {self.failed.type}: {self.failed.message.strip().partition(chr(10))[0]}"
        return f"{self.stage.name}: result differs from eager's ({self.wrong})"

    @property
    def not_compared(self) -> str:
        """Return why the results of a run that ended were not compared with eager's; empty if they were."""
        if self.stage is EAGER or self.failed:
            return ""
        if self.run.is_script:
            return SCRIPT_NOT_COMPARED
        accuracy = self.run.accuracy
        if accuracy is None:
            return NO_COMPARISON
        return accuracy.reason or NO_COMPARISON if accuracy.verdict == "not judged" else ""


def unexercised(steps: Sequence[BisectStep]) -> dict[BisectStage, str]:
    """Return the stages that had nothing to do with this program, each with the reason: they prove nothing."""
    reasons: dict[BisectStage, str] = {}
    unfused: int | None = None
    for step in steps:
        kernels = len(step.run.code.kernels)
        if step.stage is EAGER or step.fails:
            continue
        if not step.run.graphs:
            reasons[step.stage] = "no graph was captured"
        elif step.stage.backend == "inductor" and not kernels:
            reasons[step.stage] = "no kernel was generated"
        elif step.stage.backend == "inductor" and not step.stage.fuse:
            unfused = kernels
        elif step.stage.backend == "inductor" and kernels == unfused:
            reasons[step.stage] = "nothing was fused"
    return reasons


def first_failure(steps: Sequence[BisectStep]) -> BisectStep | None:
    """Return the first stage that fails; None without one."""
    return next((step for step in steps if step.fails), None)


INTENT = "Each step adds one compiler stage; the first failure identifies the stage."
NO_FAILURE = "No stage fails: the file compiles, and its results are as good as eager's."
NO_FAILURE_OF_SCRIPT = (
    "No stage crashes: the script ends without an error with each. Its results were not compared: a script has no "
    "eager form. For wrong results, let the script check them itself, or put model and inputs in a file."
)
FAILS_UNCOMPILED = "It fails without a compiler: the error is in your code or its inputs."
NOTHING_COMPILED = "No compiler stage was exercised: no graph was captured. The breaks of the file show why."
REPRODUCER = "{} writes a reproducer: a folder that shows the failure without tcexplore"


def bisect_document(
    steps: Sequence[BisectStep], stages: Sequence[BisectStage], *, over: bool, written: str = "", width: int = 78
) -> StaticDocument:
    """Return the document; `over` is whether no further stage will be tried, `written` the reproducer's folder."""
    rows = [*wrapped(INTENT, width, "muted"), BLANK, *_stages(steps, stages, over, width), BLANK]
    failing = first_failure(steps)
    if failing is not None or over:
        rows += _verdict(steps, stages, width)
    if failing is not None:
        rows += _failure(failing, written, width)
    return StaticDocument("", tuple(rows))


def _stages(steps: Sequence[BisectStep], stages: Sequence[BisectStage], over: bool, width: int) -> Iterator[Row]:
    tried, idle = {step.stage: step for step in steps}, unexercised(steps)
    next_stage = next((stage for stage in stages if stage not in tried), None)
    name_width = max(len(stage.name) for stage in stages)
    # The first compiled run includes eager.
    under_way = () if over else stages[:2] if not tried else (next_stage,)
    one_line = width >= name_width + max(len(_adds(stage)) for stage in stages) + 8
    for stage in stages:
        mark = (" –", "warn") if stage in idle else _mark(tried.get(stage), stage in under_way)
        name = (f"  {stage.name:<{name_width}}", "strong" if stage in tried else "muted")
        yield row(mark, name, (f"  {_adds(stage)}" if one_line else "", "muted"))
        if not one_line:
            yield from wrapped(_adds(stage), width, "muted", indent=5)
        if stage in idle:
            yield from wrapped(f"not exercised: {idle[stage]}", width, "warn", indent=5)


def _adds(stage: BisectStage) -> str:
    return f"{stage.backend}: {stage.adds}" if stage.backend else stage.adds


def _mark(step: BisectStep | None, under_way: bool) -> tuple[str, str]:
    if step is None:
        return (" ◐", "running") if under_way else (" ·", "dim")
    return (" ✖", "error") if step.fails else (" ✔", "ok")


def _verdict(steps: Sequence[BisectStep], stages: Sequence[BisectStage], width: int) -> Iterator[Row]:
    failing = first_failure(steps)
    if failing is not None:
        stage = failing.stage
        text = FAILS_UNCOMPILED if stage is EAGER else f"First failing stage: {stage.name}. All stages before it work."
        yield from wrapped(text, width, "error")
        return
    if len(steps) < len(stages):
        yield from wrapped("Stopped before the last stage.", width, "warn")
        return
    if steps[-1].run.is_script:
        yield from wrapped(NO_FAILURE_OF_SCRIPT, width, "warn")
        return
    idle = unexercised(steps)
    if len(idle) == len(steps) - 1:
        yield from wrapped(NOTHING_COMPILED, width, "warn")
        return
    yield from wrapped(NO_FAILURE, width, "ok")
    if idle:
        names = "; ".join(f"{stage.name} ({reason})" for stage, reason in idle.items())
        yield from wrapped(f"This says nothing about stages that were not exercised: {names}.", width, "warn")
    accuracies = (step.run.accuracy for step in steps)
    not_judged = next((one for one in accuracies if one is not None and one.verdict == "not judged"), None)
    if not_judged is not None:
        yield from wrapped(f"But {describe_accuracy(not_judged)}.", width, "warn")


def _failure(step: BisectStep, written: str, width: int) -> Iterator[Row]:
    failed, accuracy = step.failed, step.run.accuracy
    if failed is not None:
        at = failed.location
        place = places(step.run.file).describe(at)
        yield row((f"  {failed.type}", "error"), (f"  {place}" if place else "", "location"), location=at)
        yield from wrapped(failed.message, width, "strong", indent=2, location=at)
        if step.stage is EAGER and failed.hint:
            yield from wrapped(failed.hint, width, "ok", indent=2, lead="→ ")
    elif accuracy is not None:
        for line in filter(None, (describe_accuracy(accuracy), format_errors(accuracy))):
            yield from wrapped(line, width, "strong", indent=2)
        for difference in accuracy.differences:
            yield from wrapped(difference, width, "warn", indent=2, lead="! ")
    if written:
        yield row((f" reproducer: python {written.rstrip('/')}/repro.py", "ok"))
    elif step.stage is not EAGER:
        yield BLANK
        yield from wrapped(REPRODUCER.format(hint("bisect-write-reproducer")), width, "ok", keys_only=True)
    if failed is not None and failed.traceback:
        yield BLANK
        for line in failed.traceback.splitlines():
            yield row((f"  {line}", "muted"), location=failed.location, copy=line)


STAGE_FAILS, NOT_ALL_TRIED, USER_CODE_FAILS = 1, 1, 2
"""Exit statuses: a compiler stage fails; the budget ended the study; the model file fails without a compiler."""


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """The folder for the reproducer (None for no reproducer), and whether to overwrite files in it."""

    reproducer: str | None = None
    force: bool = False


NO_REPRODUCER = "a reproducer needs a model and its inputs, and this file is a script: run the script itself"


State = StudyState[BisectOptions, BisectStep]


class BisectStudy(Study[BisectOptions, BisectStep]):
    """Results are the stages that were tried, the first failing one last."""

    name = "bisect"
    title = "bisect"
    examples = ("model.py", "model.py --repro repro")
    description = "Find the compiler stage that crashes or gives a wrong result: run the file with each stage."
    studies_scripts = True
    exit_note = "1 a stage fails, or the budget was spent before all stages were tried"
    compile_options = frozenset({"dynamic"})
    default_options = BisectOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--mode", default=argparse.SUPPRESS, help="torch.compile's mode in the last stage")
        parser.add_argument("--repro", metavar="DIR", help="write a reproducer of the failure to this folder")
        force_option(parser)

    def options(self, given: argparse.Namespace) -> BisectOptions:
        if given.repro is None or given.force:
            return BisectOptions(given.repro, given.force)
        return BisectOptions(unused_folder(given.repro))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[BisectStep, None]:
        """Run the stages, several at once, up to the first failure. The first compiled run includes eager."""
        state.machine = await runs.machine(state.timeout)
        own_code, *compiled = stages_of(state)
        runs.steps.plan([stage.name for stage in compiled])
        jobs = [_at(state.job, stage) for stage in compiled]
        finished = runs.run_in_order(jobs, state.timeout, compiles_at_once(state.machine))
        async with aclosing(finished):
            for stage in compiled:
                announce(stage.name)
                run = (await anext(finished)).snapshot
                if stage is compiled[0]:
                    eager = BisectStep(own_code, await _eager_run(state, run, runs))
                    yield eager
                    if eager.fails:
                        return
                step = BisectStep(stage, run)
                yield step
                if step.fails:
                    return
        if state.results[0].run.is_script:
            announce(OWN_CALL.name)
            yield BisectStep(OWN_CALL, (await runs.run(_at(state.job, OWN_CALL), state.timeout)).snapshot)

    def document(self, state: State, width: int = 78) -> Document:
        written = state.written[0] if state.written else ""
        return bisect_document(state.results, stages_of(state), over=state.over, written=written, width=width)

    def fields(self, state: State) -> Fields:
        """Return the steps; `stage` is the first one that fails, null without one.

        `fails` is null for a run without an error whose results were not compared.
        """
        failing, idle = first_failure(state.results), unexercised(state.results)
        return {
            "stage": failing.stage.name if failing else None,
            "reproducer": state.written[0] if state.written else None,
            "stages": [{**_stage_fields(step), "unexercised": idle.get(step.stage)} for step in state.results],
        }

    def write(self, state: State) -> str:
        """Write the reproducer if the options ask for one and a stage fails."""
        folder, failing = state.options.reproducer, first_failure(state.results)
        if folder is None or failing is None or failing.stage is EAGER:
            return ""
        if failing.run.is_script:
            return NO_REPRODUCER
        try:
            write_reproducer(folder, state.job, failing.run, failing.failure, state.machine, force=state.options.force)
        except NotWrittenError as error:
            return f"no reproducer: {error}"
        state.written = (folder,)
        return ""

    def exit_status(self, state: State) -> int:
        failing = first_failure(state.results)
        if failing is None:
            return NOT_ALL_TRIED if state.skipped else 0
        return USER_CODE_FAILS if failing.stage is EAGER else STAGE_FAILS


def stages_of(state: State) -> tuple[BisectStage, ...]:
    """Return the stages that the worker's torch has, with one more for a mode other than the default."""
    backends, mode = state.machine.backends if state.machine else (), state.job.config.mode
    known = tuple(stage for stage in STAGES if stage.backend is None or not backends or stage.backend in backends)
    if state.results and state.results[0].run.is_script:
        known = (*known, OWN_CALL)
    if mode == "default":
        return known
    return (*known, BisectStage(f"Inductor's mode {mode}", "inductor", mode=mode, adds=f"what mode {mode} adds"))


async def _eager_run(state: State, compiled: Snapshot, runs: Runs) -> Snapshot:
    """Return the run that shows the file without a compiler; a script makes no eager calls in a compiled run."""
    if not compiled.is_script:
        return compiled
    config = replace(state.job.config, override=("disable",))
    return (await runs.run(replace(state.job, config=config, time_for=0.0), state.timeout)).snapshot


def _at(job: Job, stage: BisectStage) -> Job:
    if stage is OWN_CALL:
        return replace(job, config=replace(job.config, override=()), time_for=0.0)
    config = replace(
        job.config, backend=stage.backend or "eager", fuse=stage.fuse, mode=stage.mode, override=("backend", "mode")
    )
    return replace(job, config=config, time_for=0.0, graph_scripts=True)


def _stage_fields(step: BisectStep) -> Fields:
    return {
        "stage": step.stage.name,
        "adds": step.stage.adds,
        "config": configuration(step.run) if step.stage.backend else None,
        "fails": None if step.not_compared else step.fails,
        "not_compared": step.not_compared or None,
        "error": failure(step.failed),
        "accuracy": accuracy_fields(step.run.accuracy) if step.stage.backend else None,
    }


STUDY = BisectStudy()
