"""The next study: try each next step of a run in a separate process, and rank the steps by what was measured."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean, variance
from typing import Any

from tcexplore.argument_types import at_least_one
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.prose import BLANK, wrapped
from tcexplore.documents.timing.next_view import describe_step, gain_span, next_document, step_document
from tcexplore.events import BreakFix, Event, Failed, Job, StepTried
from tcexplore.fixes.known_fix import with_proposed_fixes
from tcexplore.report.json_report import failure, next_fields
from tcexplore.session import Snapshot, summarize
from tcexplore.session.economics import RunFigures, economics
from tcexplore.session.links import break_link
from tcexplore.session.next_steps import NextStep, next_steps
from tcexplore.studies import fix
from tcexplore.studies.mode_variants import Comparison, step_tried
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.study import Announce, Study, StudyState

MOST = 8
"""Steps that the command tries by default, the first ones of the list."""

COMPILE_RUNS = 3
"""Compiles of each side if compile times are compared, in turns, each with empty caches."""

T_QUANTILES = (12.71, 4.30, 3.18, 2.78)
"""Half the width of a 95% interval in standard errors: Student's t with 1, 2, 3 and 4 degrees of freedom."""

TIMING_S = 6.0
"""Seconds of timing before other processes are timed, if the user names none: short ones have wide intervals."""

NO_STEPS = "the script made too few steps for a verdict on its timing"

OWN_RUN = "your file as it is"
"""The first step."""


@dataclass(frozen=True, slots=True)
class NextOptions:
    """What to try."""

    most: int = MOST
    only: str = ""
    """Key of the only step to try; empty for all."""
    run: Snapshot | None = field(default=None, repr=False)
    """The run whose step the app tries; None on the command line."""
    step: NextStep | None = field(default=None, repr=False)
    """The step that the app tries; None on the command line."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The run with the results of all trials so far, and the newest of them."""

    run: Snapshot
    tried: StepTried | BreakFix | None = None


State = StudyState[NextOptions, StepResult]


class NextStudy(Study[NextOptions, StepResult]):
    """The newest result has all that is known."""

    name = "next"
    title = "next"
    examples = ("model.py", "model.py --most 3 --json")
    description = (
        "Rank what to do next by the time that it saves, and try each step in a separate process: your file is not "
        "changed."
    )
    timed = True
    studies_scripts = True
    default_options = NextOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to try")
        group.add_argument(
            "--most", type=at_least_one, default=MOST, metavar="N", help=f"steps to try (default: {MOST})"
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> NextOptions:
        return NextOptions(given.most)

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[StepResult, None]:
        """Run the file unless its run is known, then try its steps one by one."""
        run, only = state.options.run, state.options.step
        async with runs.temporary_folder("next") as folder:
            if run is None:
                announce(OWN_RUN)
                job = replace(state.job, profile=True, try_recompile_fixes=True)
                run = with_proposed_fixes((await runs.run(job, state.timeout)).snapshot)
                yield StepResult(run)
            untried = (step for step in next_steps(run) if _can_try(step))
            steps = [only] if only is not None else list(islice(untried, state.options.most))
            names = [describe_step(step, run) for step in steps]
            runs.steps.plan(names)
            for step, name in zip(steps, names, strict=True):
                announce(name)
                if step.trial == "fix":
                    tried: StepTried | BreakFix = await _try_fix(step, run, state, runs)
                elif step.trial == "fixes":
                    tried = await _try_fixes(step, run, state, runs, announce)
                elif run.is_script:
                    assert step.config is not None
                    tried = await _try_in_script(step, replace(state.job, config=step.config), state, runs, announce)
                else:
                    tried = await _try(step, state, runs, folder)
                run = run.apply(replace(tried, run=run.run))
                runs.steps.finish(name)  # what a trial announced last may be a part of it
                yield StepResult(run, tried)

    def add_result(self, state: State, result: StepResult) -> None:
        """Keep the newest result only."""
        state.results[:] = [result]

    def facts(self, state: State) -> tuple[Event, ...]:
        return state.results[-1].run.steps_tried if state.results else ()

    def document(self, state: State, width: int = 78) -> Document:
        """Return the list of steps; of the one that the app tries, what is known of it."""
        run = _newest(state)
        if run is None:
            return StaticDocument("", tuple(wrapped("Waiting for the run of your file.", width, "muted")))
        if run.failure is not None:
            return StaticDocument(
                "", tuple(wrapped(f"{run.failure.type}: {run.failure.message}", width, "error", lead="✖ "))
            )
        listed = (
            step_document(run, state.options.only, width) if state.options.only else next_document(run, width=width)
        )
        rows: list[Row] = [listed.row(index) for index in range(len(listed))]
        for skipped in state.skipped:
            rows += wrapped(skipped, width, "warn", lead="not tried: ")
        return StaticDocument("", (*_purpose(state, width), *rows))

    def answer(self, state: State) -> str:
        """Return the result of the step that the app tries, or the best step so far."""
        run, only = _newest(state), state.options.only
        if run is None or not state.results:
            return ""
        steps = next_steps(run)
        step = next((known for known in steps if only in ("", known.key)), None)
        return f"{describe_step(step, run)}: {gain_span(step).text}" if step is not None else ""

    def result_line(self, result: StepResult) -> str:
        if not isinstance(result.tried, StepTried):
            return ""
        step = next((known for known in next_steps(result.run) if known.key == result.tried.step), None)
        if step is None:
            return ""
        return f"{describe_step(step, result.run)}: {result.tried.problem or gain_span(step).text}"

    def fields(self, state: State) -> dict[str, Any]:
        run = _newest(state)
        return {
            "error": failure(run.failure) if run else None,
            "next": next_fields(run) if run else [],
        }

    def exit_status(self, state: State) -> int:
        run = _newest(state)
        return 0 if run is None else failure_status(run)


def _newest(state: State) -> Snapshot | None:
    return state.results[-1].run if state.results else state.options.run


def _purpose(state: State, width: int) -> list[Row]:
    """Return what the trial of a step in the app does."""
    step = state.options.step
    if step is None or state.over:
        return []
    does = "compiled without and with it, with empty caches, in turns" if step.compiles else "timed without and with it"
    text = f"Your file is {does}, in separate processes; it is not changed."
    return [*wrapped(text, width, "muted"), BLANK]


def _can_try(step: NextStep) -> bool:
    """Return whether the command can try a step that was not tried yet."""
    known = step.tried is not None or step.gain.measured
    return not known and step.trial in ("run", "fix", "fixes")


async def _try(step: NextStep, state: State, runs: Runs, folder: str) -> StepTried:
    """Time the file without and with a step; compare its compile times, with caches in `folder`, if they matter."""
    compiles = await _compare_compiles(step, state, runs, folder) if step.compiles else None
    if compiles is not None and compiles.problem:
        return compiles
    outcome = await runs.run(trial_job(state.job, step), state.timeout)
    tried = _read_call(step, outcome.snapshot)
    if compiles is None:
        return tried
    return replace(
        tried, saved_compile_s=compiles.saved_compile_s, compile_s=compiles.compile_s, recompiles=compiles.recompiles
    )


async def _try_in_script(step: NextStep, job: Job, state: State, runs: Runs, announce: Announce) -> StepTried:
    """Run a script without a step, and as `job` with it; compare the speedups of its steps over eager ones.

    A short script runs again until there are enough steps.
    """
    sides = (state.job, job)
    jobs = [replace(side, config=replace(side.config, repeat=True), profile=False) for side in sides]
    figures = []
    for number, (each, side) in enumerate(zip(jobs, ("without", "with"), strict=True), 1):
        announce(f"run {number} of 2, {side} the step")
        figures.append(RunFigures((await runs.run(each, state.timeout)).snapshot))
    comparison = Comparison(*figures)
    failed = next((side for side in figures if side.failure), None)
    ratio = comparison.steady_ratio
    if failed is not None or ratio is None or not comparison.timed:
        return StepTried(step=step.key, problem=failed.failure if failed is not None else NO_STEPS)
    recompiles = (figures[0].summary.recompiles, figures[1].summary.recompiles)
    return replace(
        step_tried(step.key, comparison, ratio), recompiles=recompiles if step.action == "avoid_recompiles" else None
    )


def trial_job(job: Job, step: NextStep) -> Job:
    """Return the job that times the file with a step against the file without it, both compiled."""
    assert step.config is not None
    config = replace(step.config, target="native", assembly=False, opcheck=False)
    return replace(
        job, config=config, baseline=job.source, baseline_config=job.config, examine=False, profile=False,
        time_for=max(job.time_for or 0.0, TIMING_S),
    )  # fmt: skip


def _read_call(step: NextStep, run: Snapshot) -> StepTried:
    """Return what the run of a trial measured."""
    timed, items = run.change_timing, step.number / step.before if step.before and step.number else 1.0
    if run.failure is not None:
        return StepTried(step=step.key, problem=_problem(run.failure))
    if timed is None or timed.verdict == "measuring":
        return StepTried(step=step.key, problem="too few calls were timed", results=run.change_check)
    return StepTried(
        step=step.key, speedup=timed.speedup * items, low=timed.low * items, high=timed.high * items,
        verdict=timed.verdict, before_us=timed.before_us, after_us=timed.after_us, results=run.change_check,
    )  # fmt: skip


async def _compare_compiles(step: NextStep, state: State, runs: Runs, folder: str) -> StepTried:
    """Compile the file without and with a step, in turns, each time with empty caches in `folder`."""
    assert step.config is not None
    seconds: dict[bool, list[float]] = {False: [], True: []}
    recompiles = {False: 0, True: 0}
    for number in range(COMPILE_RUNS):
        for with_step in (False, True):
            config = replace(step.config, target="native") if with_step else state.job.config
            caches = os.path.join(folder, re.sub(r"\W+", "_", f"{step.key} {number} {with_step}"))
            job = replace(state.job, config=config, cache_dir=caches, time_for=0.0, examine=False, profile=False)
            run = (await runs.run(job, state.timeout)).snapshot
            spent = economics(run).compile_s
            if run.failure is not None or spent is None:
                return StepTried(step=step.key, problem=_problem(run.failure) or "nothing was compiled")
            seconds[with_step].append(spent)
            recompiles[with_step] = summarize(run).recompiles
    return StepTried(
        step=step.key, saved_compile_s=difference_interval(seconds[False], seconds[True]),
        compile_s=(fmean(seconds[False]), fmean(seconds[True])),
        recompiles=(recompiles[False], recompiles[True]) if step.action == "avoid_recompiles" else None,
    )  # fmt: skip


def difference_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the difference of two means (Welch's t), at least two values on each side."""
    parts = [variance(values) / len(values) for values in (before, after)]
    spread = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (before, after), strict=True))
    freedom = int(sum(parts) ** 2 / spread) if spread else len(T_QUANTILES)
    reach = T_QUANTILES[min(max(freedom, 1), len(T_QUANTILES)) - 1] * math.sqrt(sum(parts))
    difference = fmean(before) - fmean(after)
    return difference - reach, difference + reach


def _problem(failed: Failed | None) -> str:
    return f"{failed.type}: {failed.message.strip().partition(chr(10))[0]}" if failed is not None else ""


async def _try_fix(step: NextStep, run: Snapshot, state: State, runs: Runs) -> BreakFix:
    """Verify and time the fix of a graph break."""
    graph_break = next(known for known in run.breaks if break_link(known) in step.links)
    target = fix.fix_target(fix.FixedFiles(state.job), run, graph_break)
    fixing: StudyState[fix.FixOptions, fix.FixResult] = StudyState(
        state.job, fix.FixOptions(target=target), state.timeout
    )
    async for attempt in fix.STUDY.plan(fixing, runs, lambda _: None):
        fix.STUDY.add_result(fixing, attempt)
    fixing.over = True
    return fix.break_fix(run, target, fixing)


async def _try_fixes(step: NextStep, run: Snapshot, state: State, runs: Runs, announce: Announce) -> StepTried:
    """Verify the fixes of all breaks, each on top of those before; time the file with all that are verified."""
    files = fix.FixedFiles(state.job)
    fixing: StudyState[fix.FixOptions, fix.FixResult] = StudyState(state.job, fix.FixOptions(), state.timeout)
    async for attempt in fix.fix_each(fixing, files, run, runs, announce):
        fix.STUDY.add_result(fixing, attempt)
    breaks = fix.by_break(fixing.results)
    verified = [fixes.verified for fixes in breaks if fixes.verified is not None]
    if not verified:
        return StepTried(step=step.key, problem="no fix could be verified")
    if run.is_script:
        tried = await _try_in_script(step, files.fixed_job(), state, runs, announce)
    else:
        tried = _read_call(step, verified[-1].after)
    return replace(tried, fixes=(len(verified), len(breaks)))


STUDY = NextStudy()
