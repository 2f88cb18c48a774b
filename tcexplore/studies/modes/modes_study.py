"""The modes study: each mode, backend and kind of shapes in a separate run."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tcexplore.argument_types import dynamic, name, several
from tcexplore.documents.configurations import DYNAMIC, describe_configuration, describe_variant
from tcexplore.documents.document import Document
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.events import Config, Job, Standby
from tcexplore.model_python import ModelPython
from tcexplore.quantities import duration
from tcexplore.report.json_report import configuration
from tcexplore.session.economics import RunFigures
from tcexplore.studies.modes.environments_study import ENVIRONMENTS, EnvironmentsOptions
from tcexplore.studies.modes.modes_document import ORDERS, Order, conclusions, modes_document, recommendation
from tcexplore.studies.modes.modes_variants import (
    BACKEND_WITH_MODES,
    ModesOptions,
    add_variant_options,
    add_variants,
    compiles_alone,
    may_have_variants,
    shape_fields,
    with_guard_filters,
    with_nested_breaks,
    with_numerics,
    with_regions,
    with_shapes,
)
from tcexplore.studies.modes.variant_result import (
    choose_mode,
    guard_filter_fields,
    may_be_best,
    may_be_decided,
    next_cold,
    regional_fields,
)
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import run_fields
from tcexplore.studies.study_runs import Runs, failure_status, has_ended
from tcexplore.studies.timed_cells import Cell, Matters, TimedCells, plan_cells, settled

CPU_BACKENDS = ("eager", "aot_eager", "inductor")
GPU_BACKENDS = (*CPU_BACKENDS, "cudagraphs")
"""Default backends, as far as this torch has them."""

DYNAMIC_SHAPES = (False, True)
"""Default of `dynamic`."""

FIRST_CALL = "first call"
"""Steps of which each is a run in a new process."""

VARIED = ("backend", "mode", "dynamic")
"""`Config.override` of each run."""

UNKNOWN_MACHINE = Standby(
    torch="", python="", device="cpu", seconds=0.0, modes=("default",), backends=(BACKEND_WITH_MODES,)
)
"""Stands in for a worker that did not become ready: one run is tried, and fails with the reason."""


class ModesStudy(Study[ModesOptions, RunFigures]):
    """Results are finished runs. `StudyState.planned` may grow while the study runs."""

    name = "modes"
    title = "modes"
    examples = (
        "model.py", "model.py --modes default,max-autotune --json", "model.py --python .venv --python .venv-nightly",
    )  # fmt: skip
    description = (
        "Compare all modes and backends, each run in a separate process; with several --python, compare these "
        "environments. Ctrl-C keeps the results so far."
    )
    compile_options = frozenset()
    timed = True
    studies_scripts = True
    compares_environments = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to compare")
        names = several(name)
        group.add_argument("--modes", type=names, default=(), metavar="A,B", help="default: all modes of this torch")
        group.add_argument(
            "--backends", type=names, default=(), metavar="A,B",
            help="default: eager, aot_eager, inductor, and cudagraphs on a GPU",
        )  # fmt: skip
        group.add_argument(
            "--dynamic", type=several(dynamic), default=(), metavar="A,B", dest="dynamics",
            help=f"any of {', '.join(DYNAMIC.values())} (default: false,true)",
        )  # fmt: skip
        add_variant_options(group)

    def options(self, given: argparse.Namespace) -> ModesOptions:
        if "unbacked" in given.shapes and not given.vary:
            raise ValueError("--shapes unbacked needs the dimensions that vary: --vary 'x.0=8,16,32'")
        return ModesOptions(
            given.modes, given.backends, given.dynamics, given.regions, given.nested_breaks, given.numerics,
            given.guard_filters, given.shapes,
        )  # fmt: skip

    def options_from(self, answers: Sequence[str]) -> ModesOptions:  # noqa: ARG002
        return ModesOptions()

    async def plan(
        self, state: StudyState[ModesOptions, RunFigures], runs: Runs, announce: Announce
    ) -> AsyncGenerator[RunFigures, None]:
        """Compile what is planned and has no result yet, then time each; those that may be the fastest longer.

        Each run has an empty kernel cache: none benefits from a compile before it. The first run shows which
        variants may help the model.
        """
        if not state.planned:
            state.machine = await runs.machine(state.timeout)
            state.planned = list(planned_jobs(state.job, state.machine or UNKNOWN_MACHINE, state.options))
        async with runs.temporary_folder("modes") as folder:
            try:
                # More may be planned while these run.
                while True:
                    if cells := _cells(state, folder):
                        plan_cells(runs.steps, cells, state.job.time_for or 0.0)
                        batch, in_turn, matters = self._next_batch(state, cells)
                        known = {result.run.config: result.run for result in state.results}
                        timed = TimedCells(batch, state, runs, announce, matters, in_turn=in_turn, known=known)
                        async for update in timed.results():
                            yield RunFigures(update.run)
                        add_variants(state)
                    elif row := next_cold(state.results):
                        yield await _first_call(row, state, runs, announce, folder)
                    else:
                        break
            finally:
                spent = runs.steps.budget_left_s == 0
                state.results = [
                    replace(result, run=settled(result.run, stopped=not spent)) for result in state.results
                ]

    def _next_batch(
        self, state: StudyState[ModesOptions, RunFigures], cells: list[Cell]
    ) -> tuple[list[Cell], bool, Matters]:
        """Return cells to run next, whether they compile one at a time, and which of them to time for longer."""
        if not state.results:
            # Alone, so that a short budget has an answer: eager against Inductor's default.
            return cells[:1], may_have_variants(state), may_be_best
        if alone := [cell for cell in cells if compiles_alone(cell.job.config, state.planned)]:
            return alone, True, may_be_decided
        return cells, False, may_be_best

    def add_result(self, state: StudyState[ModesOptions, RunFigures], result: RunFigures) -> None:
        """Add a run, or replace what was known of it."""
        configs = [known.run.config for known in state.results]
        if result.run.config in configs:
            state.results[configs.index(result.run.config)] = result
        else:
            order = [job.config for job in state.planned]
            state.results.append(result)
            state.results.sort(key=lambda known: order.index(known.run.config))

    def document(
        self,
        state: StudyState[ModesOptions, RunFigures],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
        order: Order = ORDERS[0],
    ) -> Document:
        return modes_document(state, order, width)

    def answer(self, state: StudyState[ModesOptions, RunFigures]) -> str:
        more = not state.over or len(state.results) < len(state.planned)
        return recommendation(state.results, more=more)

    def fields(self, state: StudyState[ModesOptions, RunFigures]) -> dict[str, Any]:
        """Return the rows; `use` is the configuration to use, null if none is faster than eager."""
        choice = choose_mode(state.results)
        return {
            "use": configuration(choice.best.run) if choice else None,
            "conclusions": list(conclusions(state.results)),
            "regional": regional_fields(state.results),
            "shapes": shape_fields(state.results, state.options),
            "guard_filters": guard_filter_fields(state.results),
            "runs": [run_fields(result) for result in state.results],
        }

    def result_line(self, result: RunFigures) -> str:
        if not has_ended(result.run):
            return ""
        name = describe_configuration(result.run.config)
        if result.cold is not None:
            return f"{name}: first call in a new process {duration(result.cold_s)}" if result.cold_s else ""
        return f"{name}: {format_outcome(result)}"

    def across_environments(
        self, options: ModesOptions, job: Job, pythons: Sequence[ModelPython]
    ) -> tuple[Study[Any, Any], Any]:
        """Return the study of one configuration, or of those that the options name, in each environment."""
        if options == ModesOptions():
            return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons))
        named = replace(
            options, modes=options.modes or ("default",), backends=options.backends or (BACKEND_WITH_MODES,),
            dynamic=options.dynamic or (None,),
        )  # fmt: skip
        configs = tuple(planned.config for planned in planned_jobs(job, UNKNOWN_MACHINE, named))
        return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons), configs)

    def exit_status(self, state: StudyState[ModesOptions, RunFigures]) -> int:
        """Return an error only if no run works."""
        return min((failure_status(result.run) for result in state.results), default=0)


def _cells(state: StudyState[ModesOptions, RunFigures], folder: str) -> list[Cell]:
    """Return what is planned and has no result, the most promising first."""
    done = {result.run.config for result in state.results}
    return [
        Cell(config, describe_configuration(config), replace(job, cache_dir=_kernels(folder, config), profile=False))
        for job in sorted(state.planned, key=lambda job: _promise(job.config))
        if (config := job.config) not in done
    ]


def _promise(config: Config) -> tuple[bool, bool, int]:
    """Return a key that sorts configurations: Inductor's default first, then its modes that search for more."""
    modes = ("default", "max-autotune", "reduce-overhead", "max-autotune-no-cudagraphs")
    known = modes.index(config.mode) if config.mode in modes else len(modes)
    return config.backend != BACKEND_WITH_MODES, bool(config.dynamic) and known > 0, known


async def _first_call(
    row: RunFigures, state: StudyState[ModesOptions, RunFigures], runs: Runs, announce: Announce, folder: str
) -> RunFigures:
    """Return a row with its first call in a new process, with empty caches of torch inside `folder`."""
    name = f"first call in a new process, {describe_configuration(row.run.config)}"
    runs.steps.plan([name], FIRST_CALL)
    runs.steps.begin(FIRST_CALL)
    announce(name)
    caches = tempfile.mkdtemp(prefix="first-call-", dir=folder)
    job = replace(
        state.job, config=row.run.config, cold=True, caches=caches, time_for=0.0, examine=False, profile=False
    )
    outcome = await runs.run(job, state.timeout)
    runs.steps.finish(name, FIRST_CALL)
    return replace(row, cold=outcome.snapshot)


def _kernels(folder: str, config: Config) -> str:
    variant = describe_variant(replace(config, guard_filter=""))  # a filter changes no kernel
    name = f"{config.backend}-{config.mode}-{config.dynamic}-{variant}"
    return os.path.join(folder, re.sub(r"[^\w.-]+", "_", name))


def planned_jobs(job: Job, machine: Standby, options: ModesOptions) -> tuple[Job, ...]:
    """Return one job for each combination of backend, mode, kind of shapes and variant."""
    usual = CPU_BACKENDS if machine.device == "cpu" else GPU_BACKENDS
    known = tuple(backend for backend in usual if backend in machine.backends)
    backends = options.backends or ((BACKEND_WITH_MODES,) if options.shapes else known) or (BACKEND_WITH_MODES,)
    modes = options.modes or (("default",) if options.shapes else machine.modes) or ("default",)
    pairs = [pair for backend in backends for pair in _with_modes(backend, modes)]
    configs = [
        replace(job.config, backend=backend, mode=mode, dynamic=dynamic_shapes, override=VARIED)
        for (backend, mode), dynamic_shapes in product(
            pairs, (None,) if options.shapes else options.dynamic or DYNAMIC_SHAPES
        )
    ]
    for vary in (with_shapes, with_regions, with_nested_breaks, with_numerics, with_guard_filters):
        configs = list(dict.fromkeys(varied for config in configs for varied in vary(config, options)))
    return tuple(replace(job, config=config) for config in configs)


def _with_modes(backend: str, modes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((backend, mode) for mode in (modes if backend == BACKEND_WITH_MODES else ("default",)))


STUDY = ModesStudy()
