"""The sweep study: one dimension of the inputs at several sizes."""

from __future__ import annotations

import argparse
import re
from collections.abc import AsyncGenerator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tcexplore.argument_types import at_least_one, count, several
from tcexplore.documents.document import Document
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.events import EntryFound, Job
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.studies.study import Announce, Prompt, PromptField, Study, StudyState
from tcexplore.studies.study_json import Fields, run_fields
from tcexplore.studies.study_runs import Runs, failure_status, has_ended
from tcexplore.studies.sweep.sweep_document import conclusions, helps, step_name, sweep_document
from tcexplore.studies.sweep.sweep_result import ALL_SIZES, DYNAMIC, STATIC, Form, Sweep, SweepStep
from tcexplore.studies.timed_cells import Cell, TimedCells, may_become_certain, plan_cells, settled

NOTE = (
    "Inputs whose size in this dimension equals the first one's are resized too. All sizes are also called one after "
    "another, in this order, to find those that recompile."
)

SUGGESTED_RATIOS = (1 / 16, 1 / 4, 1, 4)
"""Suggested sizes, relative to the size in the file."""

_FIRST_SIZE = re.compile(r"\[(\d+)")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Dimension of the inputs, and its sizes in the order of the calls."""

    dim: int = 0
    sizes: tuple[int, ...] = ()


StepKey = tuple[Form, int]
"""The form and the size of a `SweepStep`."""


class PlannedStep(NamedTuple):
    """One run of the sweep, as in `SweepStep`."""

    form: Form
    size: int
    job: Job


class SweepStudy(Study[SweepOptions, SweepStep]):
    """Results are finished runs: first all sizes in one run, then each size compiled by itself."""

    name = "sweep"
    title = "sweep"
    examples = ("model.py --dim 0 --sizes 1,8,64",)
    description = "Time one dimension of the inputs at several sizes: eager, compiled for each size, and for all."
    compile_options = frozenset({"mode", "backend"})
    timed = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to run")
        group.add_argument("--dim", type=count, default=0, metavar="N", help="the dimension (default: 0)")
        group.add_argument(
            "--sizes", type=several(at_least_one), required=True, metavar="1,2,4",
            help="the sizes, in the order of the calls",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> SweepOptions:
        return SweepOptions(given.dim, given.sizes)

    def prompt(
        self,
        job: Job,  # noqa: ARG002
        own: Snapshot | None,
        last: StudyState[SweepOptions, SweepStep] | None,
    ) -> Prompt:
        dim, over = (last.options.dim, last.options.sizes) if last else (0, suggested_sizes(own.entry if own else None))
        fields = (
            PromptField("Dimension, counted from 0", str(dim), parse_dimension),
            PromptField("Sizes, in the order of the calls", ", ".join(map(str, over)), parse_sizes),
        )
        return Prompt("One dimension at several sizes", fields, NOTE)

    def options_from(self, answers: Sequence[str]) -> SweepOptions:
        return SweepOptions(parse_dimension(answers[0]), parse_sizes(answers[1]))

    async def plan(
        self, state: StudyState[SweepOptions, SweepStep], runs: Runs, announce: Announce
    ) -> AsyncGenerator[SweepStep, None]:
        """Compile all, then time each size; a size that fails in eager is left out of the runs over all sizes."""
        steps = {(step.form, step.size): step for step in planned_steps(state.job, state.options)}
        state.planned = [step.job for step in steps.values()]
        cells = [Cell(key, step_name(*key), step.job) for key, step in steps.items()]
        plan_cells(runs.steps, cells, state.job.time_for or 0.0)
        # First what answers the question within a short budget: each size, compiled with static shapes.
        first = [cell for cell in cells if cell.key[0] == STATIC]  # type: ignore[index]
        try:
            for batch in (first, [cell for cell in cells if cell not in first]):
                async for update in TimedCells(batch, state, runs, announce, _undecided).results():
                    form, size = next(key for key in steps if key == update.cell.key)
                    yield SweepStep(form, size, RunFigures(update.run))
            for job, form in _without_failing_sizes(_sweep(state), steps):
                announce(f"{form}, the sizes that work in eager")
                yield SweepStep(form, 0, RunFigures((await runs.run(job, state.timeout)).snapshot))
        finally:
            spent = runs.steps.budget_left_s == 0
            state.results = [replace(step, figures=_settled(step.figures, not spent)) for step in state.results]

    def add_result(self, state: StudyState[SweepOptions, SweepStep], result: SweepStep) -> None:
        """Add a run, or replace what was known of it."""
        keys = [(step.form, step.size) for step in state.results]
        if (key := (result.form, result.size)) in keys:
            state.results[keys.index(key)] = result
        else:
            state.results.append(result)

    def document(
        self,
        state: StudyState[SweepOptions, SweepStep],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return sweep_document(_sweep(state), frozenset() if state.over else state.active, width)

    def answer(self, state: StudyState[SweepOptions, SweepStep]) -> str:
        return next(helps(_sweep(state)), "")

    def fields(self, state: StudyState[SweepOptions, SweepStep]) -> Fields:
        sweep = _sweep(state)
        return {
            "dim": sweep.dim,
            "sizes": [_size(sweep, size) for size in sweep.sizes],
            "all_sizes": {form: _all_sizes(sweep, form) for form in ALL_SIZES},
            "helps_from": {form: sweep.helps_from(form) for form in (STATIC, DYNAMIC)},
            "conclusions": list(conclusions(sweep)),
        }

    def result_line(self, result: SweepStep) -> str:
        if not has_ended(result.figures.run):
            return ""
        return f"{step_name(result.form, result.size)}: {format_outcome(result.figures)}"

    def exit_status(self, state: StudyState[SweepOptions, SweepStep]) -> int:
        """Return an error only if no run works."""
        return min((failure_status(step.figures.run) for step in state.results), default=0)


def planned_steps(job: Job, options: SweepOptions) -> tuple[PlannedStep, ...]:
    """Return the runs over all sizes, then each size compiled by itself with static and with dynamic shapes."""
    config = replace(job.config, dim=options.dim)

    def at(dynamic: bool | None, over: tuple[int, ...]) -> Job:
        return replace(job, config=replace(config, dynamic=dynamic, sizes=over, override=("dynamic",)))

    return (
        *(
            PlannedStep(form, 0, replace(at(dynamic, options.sizes), time_for=0.0, examine=False))
            for form, dynamic in ALL_SIZES.items()
        ),
        *(
            PlannedStep(form, size, at(form == DYNAMIC, (size,)))
            for size in options.sizes
            for form in (STATIC, DYNAMIC)
        ),
    )


def _undecided(known: dict[Hashable, Snapshot]) -> set[Hashable]:
    """Return the runs without a verdict that more timing may decide."""
    open_verdicts = ("undecided", "measuring")
    return {
        key
        for key, run in known.items()
        if run.timing is not None and run.timing.verdict in open_verdicts and may_become_certain(run.timing)
    }


def _settled(figures: RunFigures, stopped: bool) -> RunFigures:
    return RunFigures(settled(figures.run, stopped=stopped))


def _without_failing_sizes(sweep: Sweep, steps: Mapping[StepKey, PlannedStep]) -> Iterator[tuple[Job, Form]]:
    """Yield the runs over all sizes that failed in eager, with the sizes that work there."""
    working = tuple(size for size in sweep.sizes if size not in sweep.failing_sizes)
    for form in ALL_SIZES:
        figures = sweep.all_sizes(form)
        if working and working != sweep.sizes and figures is not None and figures.run.failure is not None:
            job = steps[form, 0].job
            yield replace(job, config=replace(job.config, sizes=working)), form


def _sweep(state: StudyState[SweepOptions, SweepStep]) -> Sweep:
    return Sweep(state.options.dim, state.options.sizes, tuple(state.results))


def _size(sweep: Sweep, size: int) -> Fields:
    """Return a size in both forms; null without a run."""
    by_form: dict[str, RunFigures | None] = {form: sweep.at(form, size) for form in (STATIC, DYNAMIC)}
    return {"size": size, **{form: figures and run_fields(figures) for form, figures in by_form.items()}}


def _all_sizes(sweep: Sweep, form: Form) -> dict[str, Any] | None:
    figures = sweep.all_sizes(form)
    if figures is None:
        return None
    compiled, limit = list(sweep.compiled_at(form)), sweep.limit_hit(form)
    return {**run_fields(figures), "compiled_at": compiled, "recompiled_at": compiled[1:], "limit_hit": limit}


def parse_dimension(text: str) -> int:
    """Return the number of a dimension. Raises `ValueError` with a message."""
    if not text.strip().isdecimal():
        raise ValueError("A dimension is a whole number, 0 or more.")
    return int(text)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes in `1, 8, 64` without duplicates. Raises `ValueError` with a message."""
    parts = [part.strip() for part in text.replace(" ", ",").split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("Sizes are whole numbers above 0, separated by commas: 1, 8, 64.")
    return tuple(dict.fromkeys(int(part) for part in parts))


def suggested_sizes(entry: EntryFound | None) -> tuple[int, ...]:
    """Return sizes around the first size of the file's first tensor, and 1, for which torch always specializes."""
    described = " ".join(entry.calls[0]) if entry is not None and entry.calls else ""
    first = _FIRST_SIZE.search(described)
    size = int(first[1]) if first else 16
    return tuple(sorted({1, *(int(size * ratio) for ratio in SUGGESTED_RATIOS if size * ratio >= 1)}))


STUDY = SweepStudy()
