"""The bisect study: add compiler stages one by one until a run fails or differs from eager."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from tcexplore.argument_types import force_option
from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.files import NotWrittenError
from tcexplore.report import json_records
from tcexplore.report.json_report import configuration, failure
from tcexplore.session import Snapshot
from tcexplore.studies.bisect.bisect_document import bisect_document
from tcexplore.studies.bisect.bisect_result import (
    EAGER,
    OWN_CALL,
    STAGES,
    BisectStage,
    BisectStep,
    first_failure,
    unexercised,
)
from tcexplore.studies.bisect.reproducer import unused_folder, write_reproducer
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_runs import Runs
from tcexplore.studies.timed_cells import compiles_at_once

STAGE_FAILS, NOT_ALL_TRIED, USER_CODE_FAILS = 1, 1, 2
"""Exit statuses: a compiler stage fails; the budget ended the study; the model file fails without a compiler."""


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """The folder for the reproducer (None for no reproducer), and whether to overwrite files in it."""

    reproducer: str | None = None
    force: bool = False


NO_REPRODUCER = "a reproducer needs a model and its inputs, and this file is a script: run the script itself"


class BisectStudy(Study[BisectOptions, BisectStep]):
    """Results are the stages that were tried, the first failing one last."""

    name = "bisect"
    title = "bisect"
    examples = ("model.py", "model.py --repro repro")
    description = "Find the compiler stage that crashes or gives a wrong result: run the file with each stage."
    studies_scripts = True
    exit_note = "1 a stage fails, or the budget was spent before all stages were tried"
    compile_options = frozenset({"dynamic"})

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--mode", default=argparse.SUPPRESS, help="torch.compile's mode in the last stage")
        parser.add_argument("--repro", metavar="DIR", help="write a reproducer of the failure to this folder")
        force_option(parser)

    def options(self, given: argparse.Namespace) -> BisectOptions:
        if given.repro is None or given.force:
            return BisectOptions(given.repro, given.force)
        return BisectOptions(unused_folder(given.repro))

    def options_from(self, answers: Sequence[str]) -> BisectOptions:  # noqa: ARG002
        return BisectOptions()

    async def plan(
        self, state: StudyState[BisectOptions, BisectStep], runs: Runs, announce: Announce
    ) -> AsyncGenerator[BisectStep, None]:
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

    def document(
        self,
        state: StudyState[BisectOptions, BisectStep],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        written = state.written[0] if state.written else ""
        return bisect_document(state.results, stages_of(state), over=state.over, written=written, width=width)

    def fields(self, state: StudyState[BisectOptions, BisectStep]) -> Fields:
        """Return the steps; `stage` is the first one that fails, null without one.

        `fails` is null for a run without an error whose results were not compared.
        """
        failing, idle = first_failure(state.results), unexercised(state.results)
        return {
            "stage": failing.stage.name if failing else None,
            "reproducer": state.written[0] if state.written else None,
            "stages": [{**_stage_fields(step), "unexercised": idle.get(step.stage)} for step in state.results],
        }

    def write(self, state: StudyState[BisectOptions, BisectStep]) -> str:
        """Write the reproducer if the options ask for one and a stage fails."""
        folder, failing = state.options.reproducer, first_failure(state.results)
        if folder is None or failing is None or failing.stage is EAGER:
            return ""
        if failing.run.is_script:
            return NO_REPRODUCER
        try:
            write_reproducer(folder, state.job, failing, state.machine, force=state.options.force)
        except NotWrittenError as error:
            return f"no reproducer: {error}"
        state.written = (folder,)
        return ""

    def exit_status(self, state: StudyState[BisectOptions, BisectStep]) -> int:
        failing = first_failure(state.results)
        if failing is None:
            return NOT_ALL_TRIED if state.skipped else 0
        return USER_CODE_FAILS if failing.stage is EAGER else STAGE_FAILS


def stages_of(state: StudyState[BisectOptions, BisectStep]) -> tuple[BisectStage, ...]:
    """Return the stages that the worker's torch has, with one more for a mode other than the default."""
    backends, mode = state.machine.backends if state.machine else (), state.job.config.mode
    known = tuple(stage for stage in STAGES if stage.backend is None or not backends or stage.backend in backends)
    if state.results and state.results[0].run.is_script:
        known = (*known, OWN_CALL)
    if mode == "default":
        return known
    return (*known, BisectStage(f"Inductor's mode {mode}", "inductor", mode=mode, adds=f"what mode {mode} adds"))


async def _eager_run(state: StudyState[BisectOptions, BisectStep], compiled: Snapshot, runs: Runs) -> Snapshot:
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
        "accuracy": json_records.accuracy(step.run.accuracy) if step.stage.backend else None,
    }


STUDY = BisectStudy()
