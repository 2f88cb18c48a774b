"""The modes study: each mode, backend and kind of shapes in a separate run."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tcexplore.argument_types import dynamic, name, several
from tcexplore.documents.configurations import DYNAMIC, describe_configuration
from tcexplore.documents.document import Document
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.events import Config, Job, Standby
from tcexplore.model_python import ModelPython
from tcexplore.report.json_report import configuration
from tcexplore.session.run_summary import RunFigures
from tcexplore.studies.modes.environments_study import ENVIRONMENTS, EnvironmentsOptions
from tcexplore.studies.modes.modes_document import ORDERS, Order, conclusions, modes_document
from tcexplore.studies.modes.modes_result import choose_mode, may_be_best
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import run_fields
from tcexplore.studies.study_runs import Runs, failure_status, has_ended
from tcexplore.studies.timed_cells import Cell, TimedCells, settled

BACKEND_WITH_MODES = "inductor"
"""The only backend for which the modes of torch.compile make a difference."""

CPU_BACKENDS = ("eager", "aot_eager", "inductor")
GPU_BACKENDS = (*CPU_BACKENDS, "cudagraphs")
"""Default backends, as far as this torch has them."""

SHAPES = (False, True)
"""Default of `dynamic`."""

VARIED = ("backend", "mode", "dynamic")
"""`Config.override` of each run."""

UNKNOWN_MACHINE = Standby(
    torch="", python="", device="cpu", seconds=0.0, modes=("default",), backends=(BACKEND_WITH_MODES,)
)
"""Stands in for a worker that did not become ready: one run is tried, and fails with the reason."""


@dataclass(frozen=True, slots=True)
class ModesOptions:
    """What to compare. Empty: all modes that this torch has, the default backends, and `SHAPES`."""

    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dynamic: tuple[bool | None, ...] = ()


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

    def options(self, given: argparse.Namespace) -> ModesOptions:
        return ModesOptions(given.modes, given.backends, given.dynamics)

    def options_from(self, answers: Sequence[str]) -> ModesOptions:  # noqa: ARG002
        return ModesOptions()

    async def plan(
        self, state: StudyState[ModesOptions, RunFigures], runs: Runs, announce: Announce
    ) -> AsyncGenerator[RunFigures, None]:
        """Compile what is planned and has no result yet, then time each; those that may be the fastest longer.

        Each run has an empty kernel cache: none benefits from a compile before it.
        """
        if not state.planned:
            machine = await runs.machine(state.timeout) or UNKNOWN_MACHINE
            state.planned = list(planned_jobs(state.job, machine, state.options))
        async with runs.temporary_folder("modes") as folder:
            try:
                # More may be planned while these run.
                while cells := _cells(state, folder):
                    async for update in TimedCells(cells, state, runs, announce, may_be_best).results():
                        yield RunFigures(update.run)
            finally:
                spent = runs.steps.budget_left_s == 0
                state.results = [RunFigures(settled(result.run, stopped=not spent)) for result in state.results]

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

    def fields(self, state: StudyState[ModesOptions, RunFigures]) -> dict[str, Any]:
        """`use` is the configuration to use, null if none is faster than eager."""
        choice = choose_mode(state.results)
        return {
            "use": configuration(choice.best.run) if choice else None,
            "conclusions": list(conclusions(state.results)),
            "runs": [run_fields(result) for result in state.results],
        }

    def result_line(self, result: RunFigures) -> str:
        if not has_ended(result.run):
            return ""
        return f"{describe_configuration(result.run.config)}: {format_outcome(result)}"

    def across_environments(
        self, options: ModesOptions, job: Job, pythons: Sequence[ModelPython]
    ) -> tuple[Study[Any, Any], Any]:
        """Return the study of one configuration, or of those that the options name, in each environment."""
        if not (options.modes or options.backends or options.dynamic):
            return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons), (job.config,))
        named = ModesOptions(
            options.modes or ("default",), options.backends or (BACKEND_WITH_MODES,), options.dynamic or (None,)
        )
        configs = tuple(planned.config for planned in planned_jobs(job, UNKNOWN_MACHINE, named))
        return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons), configs)

    def exit_status(self, state: StudyState[ModesOptions, RunFigures]) -> int:
        """Return an error only if no run works."""
        return min((failure_status(result.run) for result in state.results), default=0)


def _cells(state: StudyState[ModesOptions, RunFigures], folder: str) -> list[Cell]:
    """Return what is planned and has no result."""
    done = {result.run.config for result in state.results}
    return [
        Cell(config, describe_configuration(config), replace(job, cache_dir=_kernels(folder, config), profile=False))
        for job in state.planned
        if (config := job.config) not in done
    ]


def _kernels(folder: str, config: Config) -> str:
    return os.path.join(folder, f"{config.backend}-{config.mode}-{config.dynamic}")


def planned_jobs(job: Job, machine: Standby, options: ModesOptions) -> tuple[Job, ...]:
    """Return one job for each combination of backend, mode and kind of shapes."""
    usual = CPU_BACKENDS if machine.device == "cpu" else GPU_BACKENDS
    known = tuple(backend for backend in usual if backend in machine.backends)
    backends = options.backends or known or (BACKEND_WITH_MODES,)
    modes = options.modes or machine.modes or ("default",)
    pairs = [pair for backend in backends for pair in _with_modes(backend, modes)]
    return tuple(
        replace(job, config=replace(job.config, backend=backend, mode=mode, dynamic=dynamic_shapes, override=VARIED))
        for (backend, mode), dynamic_shapes in product(pairs, options.dynamic or SHAPES)
    )


def _with_modes(backend: str, modes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((backend, mode) for mode in (modes if backend == BACKEND_WITH_MODES else ("default",)))


STUDY = ModesStudy()
