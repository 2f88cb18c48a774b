"""The modes study across environments: one file with several Pythons, and what changes from version to version."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.configurations import describe_configuration
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import BLANK, FAILED, Column, heading, json_values, table, wrapped
from tcexplore.documents.run_difference_rows import difference_rows
from tcexplore.documents.verdicts import LEGEND, format_outcome, format_speedup
from tcexplore.environments import named_python, parse_version
from tcexplore.events import Config
from tcexplore.model_python import ModelPython
from tcexplore.quantities import duration
from tcexplore.report.json_records import Fields
from tcexplore.report.run_difference_json import difference_fields
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.session.run_diff import RunChange, RunDiff, run_diff, unique_kernels
from tcexplore.session.run_difference import RunDifference, run_difference
from tcexplore.studies.runs import Runs, has_ended
from tcexplore.studies.setting_trials import try_settings
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import run_fields
from tcexplore.studies.timed_cells import TURNS, Cell, TimedCells, settled

ChangeFact = Literal["run", "break", "graph", "op", "recompile", "kernel", "result", "time"]

ChangeVerb = Literal["new", "gone", "changed"]

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""97.5% quantiles of Student's t distribution, for 1, 2, … degrees of freedom."""

LEAST_CHANGE = 0.03
"""Smallest change of a time that is listed: two processes with the same code differ by that much."""


class Figure(NamedTuple):
    """A mean with its 95% interval; the ends are None with fewer than three samples."""

    value: float
    low: float | None = None
    high: float | None = None

    def excludes(self, value: float) -> bool:
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def interval(self, text: Callable[[float], str]) -> str:
        """Return `[1.2 ms, 1.3 ms]`; empty if it is unknown."""
        return "" if self.low is None or self.high is None else f"[{text(self.low)}, {text(self.high)}]"


@dataclass(frozen=True, slots=True)
class EnvironmentRun:
    """A run in one environment."""

    python: ModelPython
    figures: RunFigures
    slices_us: tuple[float, ...] = ()
    """Median time of a compiled call in each slice of its timing, in microseconds."""
    profiled: Snapshot | None = None
    """A further run, whose call was profiled, so that its kernels have times."""
    difference: RunDifference | None = None
    """The difference from the environment of the version before, kernel by kernel."""

    @property
    def run(self) -> Snapshot:
        return self.figures.run

    @property
    def unique_kernels(self) -> int:
        """Generated kernels with different code."""
        return unique_kernels(self.run)

    @property
    def compiled_us(self) -> Figure | None:
        """Time of a compiled call in microseconds; None if it was not timed."""
        return geometric_mean(self.slices_us)


class EnvironmentChange(NamedTuple):
    """A difference between two environments."""

    fact: ChangeFact
    verb: ChangeVerb
    text: str
    location: ev.Location | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentStep:
    """Changes from one environment to the next."""

    before: EnvironmentRun
    after: EnvironmentRun
    changes: tuple[EnvironmentChange, ...]


def geometric_mean(values: Sequence[float]) -> Figure | None:
    """Return the geometric mean with Student's 95% interval; None without values."""
    if not values:
        return None
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    if len(logs) < 3:
        return Figure(math.exp(middle))
    reach = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1] * stdev(logs) / math.sqrt(len(logs))
    return Figure(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def time_ratio(run: EnvironmentRun, base: EnvironmentRun) -> Figure | None:
    """Return the time of a compiled call over that in another environment, from slices that were timed in turn."""
    return geometric_mean([a / b for a, b in zip(run.slices_us, base.slices_us, strict=False)])


def version_key(python: ModelPython) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the versions of torch and Python, to sort by."""
    return parse_version(python.torch), parse_version(python.version)


def labels(pythons: Sequence[ModelPython]) -> dict[str, str]:
    """Return a short name of each environment by its interpreter: what tells it from the others."""
    names = {python.executable: f"torch {python.torch}" for python in pythons}
    for more in ("version", "executable"):
        if len(set(names.values())) == len(names):
            break
        names = {python.executable: f"torch {python.torch}, Python {getattr(python, more)}" for python in pythons}
    return names


def steps(runs: Sequence[EnvironmentRun]) -> tuple[EnvironmentStep, ...]:
    """Return what changes from each version to the next; environments of equal versions keep their order."""
    ordered = sorted(runs, key=lambda run: version_key(run.python))
    return tuple(EnvironmentStep(a, b, tuple(changes(a, b))) for a, b in pairwise(ordered))


def changes(before: EnvironmentRun, after: EnvironmentRun) -> Iterator[EnvironmentChange]:
    """Yield the differences of two runs."""
    failures = before.figures.failure, after.figures.failure
    if any(failures):
        if failures[0] != failures[1]:
            verb: ChangeVerb = "changed" if all(failures) else "new" if failures[1] else "gone"
            yield EnvironmentChange("run", verb, failures[1] or failures[0])
        return
    diff = run_diff(before.run, after.run)
    yield from _break_changes(diff)
    yield from _count_changes(before, after)
    yield from _op_changes(diff)
    yield from _kernel_changes(diff)
    wrong = before.figures.summary.wrong, after.figures.summary.wrong
    if wrong[0] != wrong[1]:
        yield EnvironmentChange("result", "new" if wrong[1] else "gone", "the result differs from eager's")
    ratio = time_ratio(after, before)
    if ratio is not None and ratio.excludes(1.0) and abs(math.log(ratio.value)) > math.log(1 + LEAST_CHANGE):
        factor, word = (ratio.value, "slower") if ratio.value > 1 else (1 / ratio.value, "faster")
        yield EnvironmentChange("time", "changed", f"a compiled call is {factor:.2f} times {word}")


def _break_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    """Yield breaks that are new or gone; one whose reason differs at the same line is changed."""
    gone = [change.item for change in diff.breaks if change.kind == "removed"]
    for graph_break in (change.item for change in diff.breaks if change.kind == "added"):
        same = next((other for other in gone if _place(other) == _place(graph_break)), None)
        if same is None:
            yield EnvironmentChange("break", "new", graph_break.reason, graph_break.location)
            continue
        gone.remove(same)
        if same.reason != graph_break.reason:
            text = f"{graph_break.reason} (before: {same.reason})"
            yield EnvironmentChange("break", "changed", text, graph_break.location)
    for graph_break in gone:
        yield EnvironmentChange("break", "gone", graph_break.reason, graph_break.location)


def _place(graph_break: ev.GraphBreak) -> tuple[str, int] | None:
    return (graph_break.location.file, graph_break.location.line) if graph_break.location else None


def _count_changes(before: EnvironmentRun, after: EnvironmentRun) -> Iterator[EnvironmentChange]:
    old, new = before.figures.summary, after.figures.summary
    facts: tuple[tuple[ChangeFact, int, int], ...] = (
        ("graph", old.graphs, new.graphs), ("recompile", old.recompiles, new.recompiles),
    )  # fmt: skip
    for fact, earlier, later in facts:
        if earlier != later:
            yield EnvironmentChange(fact, "changed", f"{fact}s {earlier} → {later}")


def _op_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    before, after = (
        Counter(node.target for graph in run.graphs for node in graph.all_nodes if node.op.startswith("call_"))
        for run in (diff.before, diff.after)
    )
    changed: tuple[tuple[ChangeVerb, Counter[str]], ...] = (("new", after - before), ("gone", before - after))
    for verb, ops in changed:
        if ops:
            names = [f"{name} ×{number}" if number > 1 else name for name, number in sorted(ops.items())]
            yield EnvironmentChange("op", verb, ", ".join(names))


def _kernel_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    kinds: tuple[tuple[ChangeVerb, str], ...] = (("new", "added"), ("gone", "removed"), ("changed", "changed"))
    for verb, kind in kinds:
        if names := sorted(_kernel_name(change) for change in diff.kernels if change.kind == kind):
            yield EnvironmentChange("kernel", verb, ", ".join(names))


def _kernel_name(change: RunChange[ev.Kernel]) -> str:
    before, after = change.before, change.after
    renamed = before is not None and after is not None and before.name != after.name
    return f"{before.name} → {after.name}" if renamed and before and after else change.item.name


Compared = tuple[EnvironmentRun, EnvironmentRun]
"""A run, and the one in the first row."""


def _ratio(row: Compared) -> Figure | None:
    run, base = row
    return time_ratio(run, base) if run is not base else None


def _speedup(row: Compared) -> Figure | None:
    """Return how many times as fast as in the first row the compiled call is, as all speedups are given."""
    ratio = _ratio(row)
    if ratio is None or not ratio.value:
        return None
    return Figure(1 / ratio.value, 1 / ratio.high if ratio.high else None, 1 / ratio.low if ratio.low else None)


def _duration_us(us: float) -> str:
    return duration(us / 1e6)


COLUMNS: tuple[Column[Compared], ...] = (
    Column("torch", lambda row: row[0].python.torch, style="strong", left=True, always=True),
    Column("Python", lambda row: row[0].python.version, left=True, always=True),
    Column("environment", lambda row: row[0].python.prefix or row[0].python.executable, display_path, "muted",
           left=True, always=True),
    Column("breaks", lambda row: row[0].figures.summary.breaks,
           style=lambda row: "break" if row[0].figures.summary.breaks else ""),
    Column("graphs", lambda row: row[0].figures.summary.graphs),
    Column("unique kernels", lambda row: row[0].unique_kernels, key="unique_kernels"),
    Column("cold compile", lambda row: row[0].figures.compile_s, duration, key="cold_compile_s"),
    Column("compiled call", lambda row: row[0].compiled_us, lambda us: _duration_us(us.value), key="compiled_us"),
    Column("95% interval", lambda row: row[0].compiled_us, lambda us: us.interval(_duration_us), "interval"),
    Column("over the first", _speedup, lambda speedup: f"{speedup.value:.2f}×", lambda row: _style(_speedup(row))),
    Column("95% interval", _speedup, lambda speedup: speedup.interval("{:.2f}".format), "interval"),
    Column(None, _ratio, key="ratio"),
    Column("over eager", lambda row: row[0].run.timing, format_speedup),
    Column(None, lambda row: list(row[0].slices_us), key="slices_us"),
)  # fmt: skip

MARKS = {"new": "+ ", "gone": "− ", "changed": "~ "}
STYLES = {"new": "added", "gone": "", "changed": ""}


def _style(speedup: Figure | None) -> str:
    if speedup is None or not speedup.excludes(1.0):
        return ""
    return "slower" if speedup.value < 1 else "faster"


def _failures(group: Sequence[EnvironmentRun], width: int) -> Iterator[Row]:
    names = labels([result.python for result in group])
    for result in group:
        if result.figures.failure:
            text = f"{names[result.python.executable]}: {result.figures.failure}"
            yield from wrapped(text, width, "error", lead="✖ ")
        elif result.run.timing_skipped and not result.slices_us:
            yield from wrapped(
                f"{names[result.python.executable]}: not timed: {result.run.timing_skipped}", width, "muted"
            )


def _changes(group: Sequence[EnvironmentRun], width: int) -> Iterator[Row]:
    for step in steps(group):
        yield BLANK
        yield heading(step_title(step, group))
        if not step.changes:
            yield from wrapped("no difference in breaks, graphs, ops, kernels or time", width, "muted")
        for change in step.changes:
            text = describe_change(change)
            yield from wrapped(text, width, STYLES[change.verb], lead=MARKS[change.verb])
        if step.after.difference is not None:
            yield BLANK
            yield from difference_rows(step.after.difference, width)


def step_title(step: EnvironmentStep, group: Sequence[EnvironmentRun]) -> str:
    """Return `since torch 2.13.0, compared with torch 2.11.0`."""
    names = labels([result.python for result in group])
    return f"since {names[step.after.python.executable]}, compared with {names[step.before.python.executable]}"


def describe_change(change: EnvironmentChange) -> str:
    """Return a change as a sentence: `break gone at line 12: …`."""
    place = f" at {display_path(change.location.file)}:{change.location.line}" if change.location else ""
    kind = {"run": "failure", "result": "wrong result"}.get(change.fact, change.fact)
    if change.fact in ("graph", "recompile", "time", "result"):
        return f"{change.text}{' no longer' if change.verb == 'gone' else ''}"
    plural = "s" if change.fact in ("op", "kernel") else ""
    return f"{kind}{plural} {change.verb}{place}: {change.text}"


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


State = StudyState[EnvironmentsOptions, EnvironmentRun]


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

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[EnvironmentRun, None]:
        """Compile in each environment, one after another; then time them in turn."""
        pythons = {python.executable: python for python in state.options.pythons}
        measured: dict[Hashable, int] = {}
        slices: dict[Hashable, tuple[float, ...]] = {}
        known: dict[Hashable, EnvironmentRun] = {}
        async with runs.temporary_folder("environments") as folder:
            cells = list(_timed_cells(state, folder))
            await _warm_up(state, runs, announce, os.path.join(folder, "warm-up"))
            async for update in TimedCells(cells, state, runs, announce, in_turn=True).results():
                key, samples = update.cell.key, _compiled_us(update.run)
                if new := samples[measured.get(key, 0) :]:
                    slices[key] = (*slices.get(key, ()), median(new))
                    measured[key] = len(samples)
                known[key] = EnvironmentRun(
                    pythons[update.cell.job.python], RunFigures(update.run), slices.get(key, ())
                )
                yield known[key]
            for cell in cells if state.job.time_for else ():
                result = known[cell.key]
                if result.slices_us and not result.run.is_script:
                    announce(f"{KERNELS} {cell.name}")
                    job = replace(cell.job, profile=True, examine=False, timing_processes=0)
                    profiled = (await runs.run(job, state.timeout)).snapshot
                    known[cell.key] = replace(result, profiled=profiled)
                    yield known[cell.key]
            async for result in _differences(known, cells, state, runs, announce):
                yield result

    def result_key(self, result: EnvironmentRun) -> Hashable:
        return result.python.executable, result.run.config

    def settled(self, result: EnvironmentRun, *, stopped: bool) -> EnvironmentRun:
        return replace(result, figures=RunFigures(settled(result.run, stopped=stopped)))

    def document(self, state: State, width: int = 78) -> Document:
        rows: list[Row] = []
        groups = _groups(state.results)
        for config, group in groups.items():
            if len(groups) > 1:
                rows += [*([BLANK] if rows else []), heading(describe_configuration(config))]
            compared = [(result, group[0]) for result in group]
            rows += table(COLUMNS, compared, instead=lambda row: FAILED if row[0].figures.failure else None)
            rows += [*_failures(group, width), *_changes(group, width)]
        note = f"ratio: of the times of a compiled call, over the first row · over eager: {LEGEND}"
        return StaticDocument("", (*rows, BLANK, *wrapped(note, width, "muted")))

    def fields(self, state: State) -> dict[str, Any]:
        """Return a run for each environment and configuration, and the changes from each version to the next."""
        groups = _groups(state.results).values()
        names = labels(state.options.pythons)
        return {
            "environments": [_run_fields(result, group[0]) for group in groups for result in group],
            "changes": [fields for group in groups for step in steps(group) for fields in _step_fields(step, names)],
            "differences": [
                difference_fields(step.after.difference)
                for group in groups
                for step in steps(group)
                if step.after.difference is not None
            ],
        }

    def pythons(self, options: EnvironmentsOptions) -> tuple[ModelPython, ...]:
        return options.pythons

    def result_line(self, result: EnvironmentRun) -> str:
        if not has_ended(result.run) or 0 < len(result.slices_us) < TURNS:
            return ""
        return f"{result.python.label}, {describe_configuration(result.run.config)}: {format_outcome(result.figures)}"


KERNELS = "times of kernels in"
"""Begins the name of a step."""


async def _differences(
    known: dict[Hashable, EnvironmentRun], cells: Sequence[Cell], state: State, runs: Runs, announce: Announce
) -> AsyncGenerator[EnvironmentRun, None]:
    """Yield the later run of each two versions with their difference, and again after each trial of a setting."""
    jobs = {cell.key: cell.job for cell in cells}
    for group in _groups(list(known.values())).values():
        for before, after in pairwise(sorted(group, key=lambda run: version_key(run.python))):
            old, new = before.profiled, after.profiled
            if old is None or new is None or old.failure is not None or new.failure is not None:
                continue
            difference = run_difference(old, new)
            yield replace(after, difference=difference)
            job = replace(jobs[after.python.executable, after.run.config], time_for=0.0, structure_only=True)

            async def compile_with(config: Config, job: ev.Job = job) -> Snapshot:
                announce(f"trying {', '.join(config.settings)}")
                return (await runs.run(replace(job, config=config), state.timeout)).snapshot

            async for tried in try_settings(difference, compile_with):
                yield replace(after, difference=tried)


def split_paths(text: str) -> list[str]:
    """Return the paths of several interpreters. Raises `ValueError` with a message."""
    try:
        paths = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Cannot split this into paths: {str(error).lower()}.") from None
    if len(paths) < 2:
        raise ValueError("Name at least two environments.")
    return paths


def _timed_cells(state: State, folder: str) -> Iterator[Cell]:
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


def _groups(results: Sequence[EnvironmentRun]) -> dict[Config, list[EnvironmentRun]]:
    """Return the runs of each configuration."""
    groups: dict[Config, list[EnvironmentRun]] = {}
    for result in results:
        groups.setdefault(result.run.config, []).append(result)
    return groups


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
        **{
            key: value._asdict() if isinstance(value, Figure) else value
            for key, value in json_values(COLUMNS, (result, base)).items()
        },
    }


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
