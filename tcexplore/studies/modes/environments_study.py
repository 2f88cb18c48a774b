"""The modes study across environments: one file with several Pythons, and what changes from version to version."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Any

from tcexplore.documents.configurations import describe_configuration
from tcexplore.documents.document import Document
from tcexplore.documents.locations import display_path
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.environments import named_python
from tcexplore.events import Config
from tcexplore.model_python import ModelPython
from tcexplore.report.json_records import Fields
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.studies.modes.environments_document import describe_change, environments_document
from tcexplore.studies.modes.environments_result import (
    EnvironmentRun,
    EnvironmentStep,
    Figure,
    labels,
    steps,
    time_ratio,
)
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import run_fields
from tcexplore.studies.study_runs import Runs, failure_status, has_ended
from tcexplore.studies.timed_cells import TURNS, Cell, TimedCells, settled

WARM_UP = """\
import torch
def model(x):
    return torch.relu(x) + 1
inputs = (torch.ones(64),)
"""


@dataclass(frozen=True, slots=True)
class EnvironmentsOptions:
    """The environments, and the configurations to compare in each."""

    pythons: tuple[ModelPython, ...]
    configs: tuple[Config, ...] = ()
    """Without any, that of the job."""


class EnvironmentsStudy(Study[EnvironmentsOptions, EnvironmentRun]):
    """Results are runs, in the order of the cells. Each run has a fresh process and empty caches."""

    name = "modes"
    title = "environments"
    description = "Compare environments."
    timed = True
    studies_scripts = True
    several_machines = True

    def options_from(self, answers: Sequence[str]) -> EnvironmentsOptions:
        """Return the environments that the answer names; each starts, which may take seconds.

        Raise `PythonNotUsableError` for one that has no torch.
        """
        pythons = [named_python(path) for answer in answers for path in split_paths(answer)]
        return EnvironmentsOptions(tuple({python.executable: python for python in pythons}.values()))

    async def plan(
        self, state: StudyState[EnvironmentsOptions, EnvironmentRun], runs: Runs, announce: Announce
    ) -> AsyncGenerator[EnvironmentRun, None]:
        """Compile in each environment, one after another; then time them in turn."""
        pythons = {python.executable: python for python in state.options.pythons}
        measured: dict[Hashable, int] = {}
        slices: dict[Hashable, tuple[float, ...]] = {}
        async with runs.temporary_folder("environments") as folder:
            cells = list(_cells(state, folder))
            await _warm_up(state, runs, announce, os.path.join(folder, "warm-up"))
            try:
                async for update in TimedCells(cells, state, runs, announce, in_turn=True).results():
                    key, samples = update.cell.key, _compiled_us(update.run)
                    if new := samples[measured.get(key, 0) :]:
                        slices[key] = (*slices.get(key, ()), median(new))
                        measured[key] = len(samples)
                    python = pythons[update.cell.job.python]
                    yield EnvironmentRun(python, RunFigures(update.run), slices.get(key, ()))
            finally:
                spent = runs.steps.budget_left_s == 0
                state.results = [_settled(result, stopped=not spent) for result in state.results]

    def add_result(self, state: StudyState[EnvironmentsOptions, EnvironmentRun], result: EnvironmentRun) -> None:
        """Add a run, or replace what was known of it."""
        keys = [_key(known) for known in state.results]
        if _key(result) in keys:
            state.results[keys.index(_key(result))] = result
        else:
            state.results.append(result)

    def document(
        self,
        state: StudyState[EnvironmentsOptions, EnvironmentRun],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return environments_document(state.results, width)

    def fields(self, state: StudyState[EnvironmentsOptions, EnvironmentRun]) -> dict[str, Any]:
        """Return a run for each environment and configuration, and the changes from each version to the next."""
        results = state.results
        groups = [[other for other in results if other.run.config == config] for config in _configs(results)]
        names = labels(state.options.pythons)
        return {
            "environments": [_run_fields(result, group[0]) for group in groups for result in group],
            "changes": [fields for group in groups for step in steps(group) for fields in _step_fields(step, names)],
        }

    def pythons(self, options: EnvironmentsOptions) -> tuple[ModelPython, ...]:
        return options.pythons

    def result_line(self, result: EnvironmentRun) -> str:
        if not has_ended(result.run) or 0 < len(result.slices_us) < TURNS:
            return ""
        return f"{result.python.label}, {describe_configuration(result.run.config)}: {format_outcome(result.figures)}"

    def exit_status(self, state: StudyState[EnvironmentsOptions, EnvironmentRun]) -> int:
        """Return an error only if no run works."""
        return min((failure_status(result.run) for result in state.results), default=0)


def split_paths(text: str) -> list[str]:
    """Return the paths of several interpreters. Raises `ValueError` with a message."""
    try:
        paths = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Cannot split this into paths: {str(error).lower()}.") from None
    if len(paths) < 2:
        raise ValueError("Name at least two environments.")
    return paths


def _cells(state: StudyState[EnvironmentsOptions, EnvironmentRun], folder: str) -> Iterator[Cell]:
    names = labels(state.options.pythons)
    configs = state.options.configs or (state.job.config,)
    several = len(configs) > 1
    for config, python in product(configs, state.options.pythons):
        name = names[python.executable] + (f", {describe_configuration(config)}" if several else "")
        number = state.options.pythons.index(python)
        kernels = os.path.join(folder, f"{number}-{config.backend}-{config.mode}-{config.dynamic}")
        job = replace(state.job, config=config, python=python.executable, cache_dir=kernels, profile=False)
        yield Cell((python.executable, config), name, job)


async def _warm_up(state: StudyState[EnvironmentsOptions, Any], runs: Runs, announce: Announce, kernels: str) -> None:
    """Compile a tiny model in each environment, so that no cold compile waits for the disk to read torch."""
    for python, name in zip(state.options.pythons, labels(state.options.pythons).values(), strict=True):
        announce(f"warming up {name}")
        config = Config(threads=state.job.config.threads)
        job = replace(
            state.job, source=WARM_UP, name=None, argv=(), config=config, python=python.executable, time_for=0.0,
            examine=False, profile=False, cache_dir=kernels,
        )  # fmt: skip
        await runs.run(job, state.timeout)


def _key(result: EnvironmentRun) -> Hashable:
    return result.python.executable, result.run.config


def _configs(results: Sequence[EnvironmentRun]) -> list[Config]:
    return list(dict.fromkeys(result.run.config for result in results))


def _settled(result: EnvironmentRun, *, stopped: bool) -> EnvironmentRun:
    return replace(result, figures=RunFigures(settled(result.run, stopped=stopped)))


def _compiled_us(run: Snapshot) -> list[float]:
    """Return all times of compiled calls so far."""
    return [value for chunk in run.pairs if not chunk.control for value in chunk.compiled_us]


# ---- JSON


def _run_fields(result: EnvironmentRun, base: EnvironmentRun) -> Fields:
    python = result.python
    return {
        "python": python.executable,
        "python_version": python.version,
        "torch": python.torch,
        **run_fields(result.figures),
        "unique_kernels": result.unique_kernels,
        "cold_compile_s": result.figures.compile_s,
        "compiled_us": _figure(result.compiled_us),
        "ratio": _figure(time_ratio(result, base)) if result is not base else None,
        "slices_us": list(result.slices_us),
    }


def _figure(figure: Figure | None) -> Fields | None:
    return None if figure is None else {"value": figure.value, "low": figure.low, "high": figure.high}


def _step_fields(step: EnvironmentStep, names: dict[str, str]) -> Iterator[Fields]:
    for change in step.changes:
        place = change.location
        yield {
            "since": names[step.after.python.executable],
            "compared_with": names[step.before.python.executable],
            "python": step.after.python.executable,
            "config": describe_configuration(step.after.run.config),
            "fact": change.fact,
            "change": change.verb,
            "file": display_path(place.file) if place else None,
            "line": place.line if place else None,
            "text": describe_change(change),
        }


ENVIRONMENTS = EnvironmentsStudy()
